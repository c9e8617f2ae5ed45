"""The conformance test of a foreign client."""

from collections.abc import Iterator

from controllers.controller import Controller
from sim_harness.conform.client_rules import RULES
from sim_harness.conform.rules import Outcome
from sim_harness.conform.trial import Trial
from transport.server.settings import ServerSettings
from transport.warm_up import warm_up


def try_client(
    command: str, endpoint: str, controller: Controller, settings: ServerSettings, only: str = ""
) -> Iterator[Outcome]:
    """Start a client and yield the outcome of each rule.

    command: its words; `{}` stands for the endpoint, which is also in the environment variable IDYN_ENDPOINT
    endpoint: address of the server that is started for it
    only: text of the rules to try, besides the first one
    """
    warm_up(controller, settings)
    with Trial(command, endpoint, controller, settings) as trial:
        first, *others = RULES
        yield (begun := first.judged(trial))
        for rule in (each for each in others if only in each.claim):
            if begun.state != "passed":
                yield Outcome(rule.claim, rule.page, "not seen", "no session")
                continue
            yield (outcome := rule.judged(trial))
            if outcome.state != "passed":
                trial.renew()
