"""First answers of the library before its kernels are compiled.

A kernel of idyn that is not in the cache is compiled into it by another process (`idyn.jit.helper`). Until a thread has loaded
it from there, calls interpret it (`idyn.jit.interpret`): the same source on the same memory, in milliseconds instead of
microseconds. This holds for processes that import a public name of `idyn`, until they call `compile_here`: controllers, servers
and all commands do, so no real-time loop runs interpreted. `IDYN_COMPILE=wait` switches it off. In fallback mode, and where the
cache cannot be written, kernels are compiled here as well.

One process compiles for a cache at a time: it has the lock on the file `compiler.lock`, which the system releases when it ends.
Others wait for the lock, then load what they need and compile the rest.
"""

import atexit
import fcntl
import logging
import os
import threading
from time import perf_counter
from typing import Any

import numba

from idyn.jit.cache import root
from idyn.jit.compiled import load_cached
from idyn.jit.helper import Failure, Helper, request
from idyn.jit.interpret import Interpreted
from idyn.jit.mode import PLAIN
from idyn.jit.stand_ins import compile_here, compiles_here, use_stand_ins
from idyn.jit.twins import has_twin

log = logging.getLogger("idyn")

TELL_AFTER_S = 1.0
"""Time from the first kernel that is not in the cache to the warning [s]."""

LOCK = "compiler.lock"


class Waiting:
    """A kernel for arguments of some types that another process compiles. Calls are interpreted until it is loaded."""

    def __init__(self, kernel: Any, types: tuple[Any, ...], background: "Background") -> None:
        self.kernel, self.types = kernel, types
        self.compiled: Any = None
        self._interpreted, self._background = Interpreted(kernel, types), background

    def __call__(self, *arguments: Any) -> Any:
        if self.compiled is None and not self._background.compiles(self):
            self.compiled = self.kernel.compile(self.types)
        if self.compiled is not None:
            return self.compiled(*arguments)
        begin = perf_counter()
        try:
            return self._interpreted(*arguments)
        finally:
            self._background.call_ms[self.kernel.__name__] = 1e3 * (perf_counter() - begin)

    def load(self) -> bool:
        """Load the kernel if it is in the cache. Return whether it is loaded."""
        self.compiled = self.compiled or load_cached(self.kernel, self.types)
        return self.compiled is not None


class Background:
    """The kernels that this process waits for, and the thread that has them compiled and loads them.

    call_ms: duration of the last interpreted call of each kernel [ms]
    """

    def __init__(self) -> None:
        self.call_ms: dict[str, float] = {}
        self._known: dict[tuple[int, Any], Waiting] = {}
        self._forget()

    def _forget(self) -> None:
        """Start without a queue, thread and second process."""
        self._queue: list[Waiting] = []
        self._guard, self._loading = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None
        self._helper: Helper | None = None
        self._lock, self._closed = -1, False

    def stand_in(self, kernel: Any, types: tuple[Any, ...]) -> Any:
        """Return the kernel if it is loaded or in the cache, else a `Waiting`; None for kernels of other packages."""
        if not has_twin(kernel):
            return None
        known = self._known.get((id(kernel), types))
        if known is None:
            loaded = load_cached(kernel, types)
            if loaded is not None:
                return loaded
            known = self._known[id(kernel), types] = Waiting(kernel, types, self)
        return known

    def compiles(self, wanted: Waiting) -> bool:
        """Ask for a kernel. Return whether another process compiles it; False if this one must."""
        if compiles_here():
            return False
        with self._guard:
            if wanted.compiled is None and wanted not in self._queue:
                self._queue.append(wanted)
            if self._thread is None and self._queue:
                try:
                    root().mkdir(parents=True, exist_ok=True)
                    self._lock = os.open(root() / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
                except OSError:  # the cache cannot be written
                    compile_here()
                    return False
                self._thread = threading.Thread(target=self._run, name="idyn-kernels", daemon=True)
                self._thread.start()
        return True

    def _run(self) -> None:
        """Load the kernels of the queue until it is empty; another process compiles those that are not in the cache."""
        timer = threading.Timer(TELL_AFTER_S, self._tell)
        timer.daemon = True
        timer.start()
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            while (wanted := self._next()) is not None:
                if self._helper is None:
                    self._helper = Helper(self._lock)
                with self._guard:
                    self._helper.ask(wanted.kernel, wanted.types)
                self._helper.wait_for_answer(self._progress)
                if not self._load(wanted) and not self._closed:
                    raise Failure(f"process {self._helper.pid} did not store a kernel in {root()}")
        except Exception as error:  # whatever it was, calls must not be interpreted for ever
            if not self._closed:
                log.warning("%s; this process compiles its kernels itself, before the next answer", error)
                compile_here()
        timer.cancel()
        with self._guard:
            if self._closed:
                return
            os.close(self._lock)
            ended, self._helper, self._thread = self._helper, None, None
        if ended is not None:
            ended.end()
        if not compiles_here():
            log.info("the kernels that were asked for are compiled")

    def _next(self) -> Waiting | None:
        """Load kernels that are in the cache; return the first of the queue that is not, or None."""
        while True:
            with self._guard:
                if self._closed or not self._queue:
                    return None
                first = self._queue[0]
            if not self._load(first):
                return None if self._closed else first

    def _load(self, wanted: Waiting) -> bool:
        with self._loading:
            if self._closed or not wanted.load():
                return False
        with self._guard:
            self._queue.remove(wanted)
        return True

    def _tell(self) -> None:
        """Warn that kernels are being compiled."""
        helper, ms = self._helper, max(self.call_ms.values(), default=5.0)
        who = "another program" if helper is None else f"process {helper.pid}"
        log.warning(
            "%s compiles kernels, once on this machine; it takes about a minute. Until then they run as Python: a prediction "
            "takes %.0f ms instead of 25 µs. IDYN_COMPILE=wait compiles before the first answer",
            who,
            ms,
        )

    def _progress(self, news: str) -> None:
        log.info("%s; until then a prediction takes %.0f ms", news, max(self.call_ms.values(), default=0.0))

    def at_exit(self) -> None:
        """Hand the rest of the queue to the second process, which goes on for the next start."""
        with self._loading:  # the interpreter must not end while a kernel is loaded
            self._closed = True
        with self._guard:
            helper, queue = self._helper, self._queue
            if self._thread is None or helper is None or not queue:
                return
            helper.leave([request(each.kernel, each.types) for each in queue[1:]])
        log.warning("process %d goes on compiling kernels, for the next start; it ends by itself", helper.pid)

    def before_fork(self) -> None:
        """Wait until the thread loads nothing: the forked process would inherit numba's lock."""
        self._loading.acquire()

    def after_fork(self) -> None:
        """Let the thread go on, in the process that has forked."""
        self._loading.release()

    def in_fork(self) -> None:
        """In a forked process: do without the thread and the files of the parent."""
        if self._thread is not None:
            os.close(self._lock)
        if self._helper is not None:
            self._helper.close()
        self._forget()


BACKGROUND = Background()


def _asked_to_wait() -> bool:
    """Return whether `IDYN_COMPILE=wait` is set. Raises ValueError for another value."""
    asked = os.environ.get("IDYN_COMPILE", "")
    if asked not in ("", "wait"):
        raise ValueError(f"IDYN_COMPILE: expected 'wait', got '{asked}'")
    return asked == "wait"


if not (PLAIN or numba.config.DISABLE_JIT or _asked_to_wait()):
    use_stand_ins(BACKGROUND.stand_in)
    atexit.register(BACKGROUND.at_exit)
    os.register_at_fork(before=BACKGROUND.before_fork, after_in_parent=BACKGROUND.after_fork, after_in_child=BACKGROUND.in_fork)
