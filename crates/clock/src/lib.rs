//! The time of day, shifted. Loaded into a server (`LD_PRELOAD`) these functions take the place of those of the C library, also for
//! the modules that the server loads.
//!
//! The shift is the little-endian `i64`, in microseconds, at the beginning of the file that `CLARET_CLOCK_FILE` names. The file is
//! mapped, so whoever writes it changes the time at once. Without such a file nothing is shifted.
//!
//! They are called before a program's own code runs, and by its allocator: so nothing here allocates, and the time comes from the
//! system call.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

use libc::{clockid_t, time_t, timespec, timeval};

const NANOS: i64 = 1_000_000_000;

/// Where no file is named.
static NONE: AtomicI64 = AtomicI64::new(0);

/// The shift; null until it is first asked for.
static SHIFT: AtomicPtr<AtomicI64> = AtomicPtr::new(null_mut());

/// Maps the file. Threads that do so at once map it twice, which does no harm.
fn shift_of_file() -> *mut AtomicI64 {
    let none = (&raw const NONE).cast_mut();
    // SAFETY: the names end with a zero, `getenv` answers null or such a name, and a mapping of the first page of a file that is
    // open is asked for at no particular place. It is never given back, so it may be referred to for ever.
    unsafe {
        let name = libc::getenv(c"CLARET_CLOCK_FILE".as_ptr());
        if name.is_null() {
            return none;
        }
        let file = libc::open(name, libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return none;
        }
        let (size, kind) = (size_of::<i64>(), libc::MAP_SHARED);
        // Beyond the end of a file that is too short nothing can be read.
        let is_long_enough = libc::lseek(file, 0, libc::SEEK_END) >= size as libc::off_t;
        let mapped = match is_long_enough {
            true => libc::mmap(null_mut(), size, libc::PROT_READ, kind, file, 0),
            false => libc::MAP_FAILED,
        };
        libc::close(file);
        if mapped == libc::MAP_FAILED { none } else { mapped.cast() }
    }
}

fn shift_us() -> i64 {
    let mut at = SHIFT.load(Ordering::Relaxed);
    if at.is_null() {
        at = shift_of_file();
        SHIFT.store(at, Ordering::Relaxed);
    }
    // SAFETY: it is `NONE`, or the beginning of a mapping that stays, aligned as any page is.
    i64::from_le(unsafe { &*at }.load(Ordering::Relaxed))
}

fn is_of_day(clock: clockid_t) -> bool {
    matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE)
}

/// The time of a clock, or the error of the system call.
///
/// # Safety
/// As `clock_gettime` of POSIX: `time` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    // SAFETY: what it was called with, which the system checks.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as c_int;
    if result != 0 || !is_of_day(clock) {
        return result;
    }
    // SAFETY: the system has just written there.
    if let Some(time) = unsafe { time.as_mut() } {
        let shift = shift_us();
        let nanos = time.tv_nsec + shift % 1_000_000 * 1_000;
        time.tv_sec += shift / 1_000_000 + nanos.div_euclid(NANOS);
        time.tv_nsec = nanos.rem_euclid(NANOS);
    }
    result
}

fn of_day() -> timespec {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it can be written to. This clock is always there.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time
}

/// The time of day.
///
/// # Safety
/// As `gettimeofday` of POSIX: `time` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gettimeofday(time: *mut timeval, _zone: *mut libc::c_void) -> c_int {
    // SAFETY: the caller's promise.
    if let Some(time) = unsafe { time.as_mut() } {
        let now = of_day();
        *time = timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1_000 };
    }
    0
}

/// The time of day in seconds.
///
/// # Safety
/// As `time` of POSIX: `at` is null or can be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn time(at: *mut time_t) -> time_t {
    let now = of_day().tv_sec;
    // SAFETY: the caller's promise.
    if let Some(at) = unsafe { at.as_mut() } {
        *at = now;
    }
    now
}
