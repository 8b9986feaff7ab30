//! The memory of the module: the process's own allocator, counted.
//!
//! The server's allocator (`RedisModule_Alloc`) asks for the size of each block and counts it with a locked
//! instruction, for each allocation and each release: a tenth of all that a shard does. The module holds locks,
//! queues, decisions, and pending writes, within its limits. `maxmemory` does not count that memory; `INFO claret`
//! shows it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the module's text.
pub(crate) struct Counted;

/// Bytes in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// How many bytes the module holds.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// No locked instruction: all happens on the server's thread, and elsewhere the sum may be wrong.
fn count(more: usize, less: usize) {
    IN_USE.store(in_use().wrapping_add(more).wrapping_sub(less), Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it comes, and its answer back as it is.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller promises the same of `layout` as the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller promises that the block is one of this allocator's with this layout, and so of the system's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the same, and what the caller promises of `size`.
        unsafe { System.realloc(block, layout, size) }
    }
}
