; Counts of references to numba's blocks of memory, inlined into kernels: arrays of records and on the stack have no block, and
; callers know. The counting itself stays a call (runtime.c): where it was inlined, `predict` took 10 % longer.

declare void @idyn_retain(ptr)
declare void @idyn_release(ptr)

define void @NRT_incref(ptr %block) alwaysinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %count
count:
  call void @idyn_retain(ptr %block)
  br label %end
end:
  ret void
}

define void @NRT_decref(ptr %block) alwaysinline {
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %count
count:
  call void @idyn_release(ptr %block)
  br label %end
end:
  ret void
}

define ptr @NRT_MemInfo_data_fast(ptr %block) alwaysinline {
  %place = getelementptr i8, ptr %block, i64 24 ; `data` of Block, runtime.c
  %data = load ptr, ptr %place
  ret ptr %data
}
