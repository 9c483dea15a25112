//! The C functions of a static binary that scripts can call.
//!
//! A static binary has no loader: musl's `dlopen` and `dlsym` always fail. LuaJIT calls them for
//! `ffi.C.name`, `ffi.load` and modules written in C. The functions here take their place when the
//! program is linked. `dlsym` knows the functions of the C library that scripts commonly declare,
//! and the others explain what a static binary cannot do.
#![expect(unsafe_code, reason = "the loader's interface is C's")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

thread_local! {
    static LAST_ERROR: RefCell<LastError> = RefCell::default();
}

/// `dlerror` returns each message once. The text stays valid until the next error.
#[derive(Default)]
struct LastError {
    text: CString,
    unread: bool,
}

fn fail(text: String) {
    LAST_ERROR.with_borrow_mut(|last| {
        last.text = CString::new(text).unwrap_or_default();
        last.unread = true;
    });
}

/// What a script can name to get functions of the C library itself, e.g. `ffi.load("m")`.
const PARTS_OF_LIBC: [&str; 5] = [
    "libc.so",
    "libm.so",
    "libpthread.so",
    "librt.so",
    "libdl.so",
];

fn is_part_of_libc(file: &str) -> bool {
    PARTS_OF_LIBC.iter().any(|part| {
        file.strip_prefix(part)
            .is_some_and(|version| version.is_empty() || version.starts_with('.'))
    })
}

/// Stands for the functions of the program itself. Nobody reads what it points to.
fn handle_of_program() -> *mut c_void {
    ptr::from_ref(&PARTS_OF_LIBC).cast_mut().cast()
}

/// # Safety
/// As dlopen(3): `file` is null or a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlopen(file: *const c_char, _flags: c_int) -> *mut c_void {
    if file.is_null() {
        return handle_of_program();
    }
    // SAFETY: by the contract.
    let file = unsafe { CStr::from_ptr(file) }.to_string_lossy();
    if is_part_of_libc(&file) {
        return handle_of_program();
    }
    fail(format!(
        "{file} is written in C, and the static build of wrkbench cannot load that; \
         build wrkbench from source to use it"
    ));
    ptr::null_mut()
}

/// # Safety
/// As dlsym(3): `name` is a string.
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(_handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: by the contract.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let address = address_of(&name);
    if address.is_null() {
        fail(format!(
            "{name} is none of the C functions in the static build of wrkbench; \
             build wrkbench from source to use it"
        ));
    }
    address
}

#[unsafe(no_mangle)]
extern "C" fn dlclose(_handle: *mut c_void) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn dlerror() -> *mut c_char {
    LAST_ERROR.with_borrow_mut(|last| {
        if std::mem::take(&mut last.unread) {
            last.text.as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        }
    })
}

/// `address_of`, for these functions of the libc crate. Its declarations are right, which matters:
/// a second declaration with other types would hide what `memcmp` is from the optimizer.
macro_rules! functions {
    ($($name:ident)*) => {
        fn address_of(name: &str) -> *mut c_void {
            $(if name == stringify!($name) {
                return libc::$name as *mut c_void;
            })*
            ptr::null_mut()
        }
    };
}

functions! {
    // Memory and strings
    malloc calloc realloc free memcpy memmove memset memcmp memchr memrchr memmem mmap munmap
    mprotect strlen strnlen strcmp strncmp strcasecmp strncasecmp strcpy strncpy strcat strncat
    strchr strrchr strstr strdup strndup strspn strcspn strpbrk strtok strtol strtoul strtoll
    strtoull strtod atoi strerror
    // Time
    time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep usleep sleep
    localtime localtime_r gmtime gmtime_r mktime timegm strftime difftime
    // Processes and threads
    getpid getppid gettid getuid geteuid getgid getegid getenv setenv unsetenv exit _exit abort
    kill fork execvp waitpid system sysconf getrusage getrlimit setrlimit gethostname uname
    sched_yield sched_getcpu sched_getaffinity sched_setaffinity pthread_self getpriority
    setpriority
    // Files
    open close read write pread pwrite lseek stat fstat lstat access unlink mkdir rmdir rename
    getcwd chdir dup dup2 pipe fcntl ioctl poll isatty readlink opendir readdir closedir fsync
    ftruncate mkstemp mkdtemp
    fopen fdopen fclose fread fwrite fgets fputs fflush fseek ftell feof ferror fileno setvbuf
    printf fprintf sprintf snprintf sscanf puts putchar perror popen pclose
    // Random numbers
    rand srand drand48 srand48 getrandom
    // Sockets
    socket connect bind listen accept send recv sendto recvfrom setsockopt getsockopt getsockname
    getpeername shutdown getaddrinfo freeaddrinfo gai_strerror
}

/// Tells libunwind about code that LuaJIT has compiled. LuaJIT is compiled with
/// `-D__register_frame=wrkbench_register_frame` for a static binary (scripts/zig-tool.sh).
///
/// LuaJIT passes what libgcc expects: the start of a section with a CIE and its FDE. musl targets
/// of Rust have libunwind, which expects an FDE and ignores anything else. An error that is raised
/// below compiled code would then find no frame that catches it.
///
/// # Safety
/// `section` starts with the CIE and FDE of `lj_err_register_mcode`.
#[unsafe(no_mangle)]
unsafe extern "C" fn wrkbench_register_frame(section: *const c_void) {
    // SAFETY: by the contract.
    unsafe { __register_frame(section.byte_add(LUAJIT_FDE_OFFSET)) };
}

/// # Safety
/// As for [`wrkbench_register_frame`].
#[unsafe(no_mangle)]
unsafe extern "C" fn wrkbench_deregister_frame(section: *const c_void) {
    // SAFETY: by the contract.
    unsafe { __deregister_frame(section.byte_add(LUAJIT_FDE_OFFSET)) };
}

/// Makes code that LuaJIT has written visible to the processor. Compilers come with this function,
/// but Rust's library for aarch64 with musl does not have it.
///
/// # Safety
/// The range is mapped memory.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
unsafe extern "C" fn __clear_cache(start: *const c_void, end: *const c_void) {
    use std::arch::asm;

    /// Bits of CTR_EL0 that say what the hardware does by itself.
    const DATA_IS_CLEAN: u64 = 1 << 28;
    const INSTRUCTIONS_ARE_FRESH: u64 = 1 << 29;
    // SAFETY: the instructions have no effect on the content of memory. The register has sizes of
    // cache lines, as powers of two of words.
    unsafe {
        let properties: u64;
        asm!("mrs {}, ctr_el0", out(reg) properties, options(nomem, nostack));
        let lines = |size: usize| (start.addr() & !(size - 1)..end.addr()).step_by(size);
        if properties & DATA_IS_CLEAN == 0 {
            for line in lines(4 << (properties >> 16 & 15)) {
                asm!("dc cvau, {}", in(reg) line, options(nostack));
            }
        }
        asm!("dsb ish", options(nostack));
        if properties & INSTRUCTIONS_ARE_FRESH == 0 {
            for line in lines(4 << (properties & 15)) {
                asm!("ic ivau, {}", in(reg) line, options(nostack));
            }
            asm!("dsb ish", options(nostack));
        }
        asm!("isb", options(nostack));
    }
}

/// `ERR_FRAME_JIT_OFS_FDE` in lj_err.c, on 64 bits. LuaJIT uses it itself on macOS, which has
/// libunwind too.
const LUAJIT_FDE_OFFSET: usize = 0x20;

unsafe extern "C" {
    fn __register_frame(fde: *const c_void);
    fn __deregister_frame(fde: *const c_void);
}
