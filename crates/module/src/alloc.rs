//! The memory of the module is the server's: `maxmemory` and `INFO memory` count it.
//!
//! Before the server has handed over its functions, and in unit tests, there is no server to ask; nothing that is
//! allocated then is freed later by the other one, because the hand-over is the first thing that happens.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::c_void;

use redis_module::raw;

/// See the module's text.
pub(crate) struct ServerMemory;

/// What the server's allocator aligns to by itself.
const ALIGNED: usize = 16;

/// Sizes of which the server's allocator (jemalloc) aligns blocks to `align`.
fn padded(layout: Layout) -> usize {
    if layout.align() <= ALIGNED { layout.size() } else { layout.pad_to_align().size() }
}

// SAFETY: blocks come from one allocator for the life of the process, which is as good as the server's own; alignment
// over 16 is had by rounding the size up, as jemalloc aligns a block to the largest power of two in its size class.
unsafe impl GlobalAlloc for ServerMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: a function of the server's, called with a size; or the system's, with the caller's promises.
        unsafe {
            match raw::RedisModule_Alloc {
                Some(alloc) => alloc(padded(layout)).cast(),
                None => System.alloc(layout),
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block was made by the function above.
        unsafe {
            match raw::RedisModule_Free {
                Some(free) => free(block.cast::<c_void>()),
                None => System.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; the layout of the new size has the alignment of the old one.
        unsafe {
            match raw::RedisModule_Realloc {
                Some(realloc) => {
                    let layout = Layout::from_size_align_unchecked(size, layout.align());
                    realloc(block.cast::<c_void>(), padded(layout)).cast()
                }
                None => System.realloc(block, layout, size),
            }
        }
    }
}
