//! One Lua state, and all the `unsafe` that LuaJIT needs.
#![expect(unsafe_code, reason = "LuaJIT is a C library")]

mod values;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use engine::source::Captured;
use mlua_sys as lua;
use mlua_sys::lua_State;

use crate::transfer::Value;
use values::{number_text, push, push_all, push_bytes, push_headers, read, string_at, type_phrase};

/// A function that scripts reach through `wrk.lua`. On `Err` the Lua side sees nil and the message.
pub(crate) type Native = Box<dyn Fn(&[Value]) -> Result<Vec<Value>, String> + Send>;

/// The bytes of a Lua error message, in one line.
pub(crate) type Message = String;

/// Why `request()` gave nothing to send.
#[derive(Debug)]
pub(crate) enum RequestFault {
    /// It raised an error.
    Raised(Message),
    /// It returned something that is no request; this says what, e.g. `nil` or `an empty string`.
    Returned(String),
}

/// A Lua state with all libraries, `wrk.lua` and, later, the script.
///
/// The lowest slots of its stack are fixed (see `Slot`), so that the calls made for every request
/// need no allocation of their own. Everything that can raise a Lua error runs under `lua_pcall`.
pub(crate) struct State {
    raw: *mut lua_State,
    /// Where wrk.lua's table stands in the registry.
    host_ref: c_int,
    /// Boxes that Lua closures point to until the state is closed.
    mailbox: *mut Mailbox,
    natives: Vec<*mut Native>,
}

// SAFETY: a Lua state has no tie to a thread, only to being used by one at a time, which `&mut self`
// in every method ensures. The natives are `Send`, and the mailbox is used only during a call.
unsafe impl Send for State {}

/// Stack positions that hold the same value for the life of the state.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Slot {
    /// `explain` of wrk.lua, the error handler of every call.
    Explain = 1,
    /// The C function [`enter`].
    Enter,
    /// `default_request` of wrk.lua.
    DefaultRequest,
    /// Names of the globals that are looked up while running.
    Request,
    Response,
    Delay,
}

const SLOTS: usize = 6;

/// Carries what [`enter`] has to do. C functions find it in their upvalue, so that handing over a
/// task cannot fail for lack of memory.
struct Mailbox {
    task: Option<Task>,
}

#[derive(Clone, Copy)]
struct Task {
    run: unsafe fn(*mut lua_State, *mut c_void),
    data: *mut c_void,
}

impl State {
    /// A state with all libraries, in which `source` (wrk.lua) has run with `natives` and `given`.
    ///
    /// # Errors
    /// When there is no memory, or `source` fails.
    pub(crate) fn new(
        source: &str,
        natives: Vec<(&'static CStr, Native)>,
        given: &Value,
    ) -> Result<Self, Message> {
        // SAFETY: no precondition.
        let raw = unsafe { lua::luaL_newstate() };
        if raw.is_null() {
            return Err("not enough memory for a Lua state".to_owned());
        }
        let mailbox = Box::into_raw(Box::new(Mailbox { task: None }));
        let (names, natives): (Vec<_>, Vec<_>) = natives
            .into_iter()
            .map(|(name, native)| (name, Box::into_raw(Box::new(native))))
            .unzip();
        let mut state = Self {
            raw,
            host_ref: 0,
            mailbox,
            natives,
        };
        let mut foundation = Foundation {
            source,
            given,
            names: &names,
            natives: &state.natives,
            mailbox,
            slots: [0; SLOTS],
            host_ref: 0,
        };
        let data = (&raw mut foundation).cast();
        // SAFETY: the state is open; `lay_foundation` gets the structure it expects, which outlives
        // the call. `lua_cpcall` is a protected call.
        let status = unsafe { lua::lua_cpcall(raw, lay_foundation, data) };
        let (slots, host_ref) = (foundation.slots, foundation.host_ref);
        if status != lua::LUA_OK {
            return Err(state.take_error());
        }
        state.host_ref = host_ref;
        for reference in slots {
            // SAFETY: reading the registry into a free slot neither allocates nor raises: a new
            // stack has LUA_MINSTACK slots.
            unsafe { lua::lua_rawgeti_(raw, lua::LUA_REGISTRYINDEX, reference) };
        }
        Ok(state)
    }

    /// Loads and runs the text of a script.
    ///
    /// # Errors
    /// When it has a syntax error, or fails.
    pub(crate) fn run_script(&mut self, script: &ScriptText) -> Result<(), Message> {
        self.protect(0, |raw| {
            let text = script.bytes.as_ptr().cast::<c_char>();
            let name = script.chunk_name.as_ptr();
            // SAFETY: runs within `protect`, so that errors may be raised; the text is read within the call only, and
            // the name ends in NUL.
            unsafe {
                if lua::luaL_loadbuffer(raw, text, script.bytes.len(), name) != lua::LUA_OK {
                    lua::lua_error(raw);
                }
                lua::lua_call(raw, 0, 0);
            }
        })
    }

    /// Calls a function of the table that wrk.lua returned.
    ///
    /// # Errors
    /// When it raises an error or returns something that cannot be transferred.
    pub(crate) fn call(&mut self, name: &CStr, arguments: &[Value]) -> Result<Value, Message> {
        let host_ref = self.host_ref;
        self.protect(0, |raw| {
            // SAFETY: runs within `protect`; `host_ref` names the table in the registry.
            unsafe {
                lua::lua_rawgeti_(raw, lua::LUA_REGISTRYINDEX, host_ref);
                lua::lua_getfield_(raw, -1, name.as_ptr());
                let count = push_all(raw, arguments);
                lua::lua_call(raw, count, 1);
                read(raw, -1)
            }
        })?
    }

    /// Calls the global `request`, or the default request if there is none, and appends the result.
    ///
    /// # Errors
    /// When it fails or does not return a request.
    pub(crate) fn request(&mut self, output: &mut Vec<u8>) -> Result<(), RequestFault> {
        let raw = self.raw;
        // SAFETY: the slots are below the floor; a raw read of a global neither allocates nor
        // raises; the call itself is protected; the string is copied while it is on the stack.
        unsafe {
            if !self.push_global_function(Slot::Request) {
                lua::lua_pushvalue(raw, Slot::DefaultRequest as c_int);
            }
            if lua::lua_pcall(raw, 0, 1, Slot::Explain as c_int) != lua::LUA_OK {
                return Err(RequestFault::Raised(self.take_error()));
            }
            match lua::lua_type(raw, -1) {
                lua::LUA_TSTRING => output.extend_from_slice(string_at(raw, -1)),
                lua::LUA_TNUMBER => {
                    let number = lua::lua_tonumber(raw, -1);
                    let text = self.protect(0, |raw| number_text(raw, number));
                    output.extend_from_slice(&text.map_err(RequestFault::Raised)?);
                }
                other => {
                    self.reset();
                    return Err(RequestFault::Returned(type_phrase(raw, other)));
                }
            }
        }
        self.reset();
        if output.is_empty() {
            return Err(RequestFault::Returned("an empty string".to_owned()));
        }
        Ok(())
    }

    /// Calls the global `response`, if it is a function at this moment.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn response(&mut self, response: &Captured) -> Result<(), Message> {
        // SAFETY: as in `request`.
        if !unsafe { self.push_global_function(Slot::Response) } {
            return Ok(());
        }
        self.protect(1, |raw| {
            // SAFETY: runs within `protect`, with the function as argument 1; a C function has
            // LUA_MINSTACK slots, of which at most six are used.
            unsafe {
                lua::lua_pushnumber(raw, f64::from(response.status));
                push_headers(raw, &response.headers);
                push_bytes(raw, &response.body);
                lua::lua_call(raw, 3, 0);
            }
        })
    }

    /// Calls the global `delay`, if it is a function at this moment. Numbers and numeric strings
    /// are given as numbers, anything else as `None`.
    ///
    /// # Errors
    /// When it fails.
    pub(crate) fn delay(&mut self) -> Result<Option<f64>, Message> {
        let raw = self.raw;
        // SAFETY: as in `request`; `lua_isnumber` and `lua_tonumber` do not convert in place.
        unsafe {
            if !self.push_global_function(Slot::Delay) {
                return Ok(None);
            }
            if lua::lua_pcall(raw, 0, 1, Slot::Explain as c_int) != lua::LUA_OK {
                return Err(self.take_error());
            }
            let number = (lua::lua_isnumber(raw, -1) != 0).then(|| lua::lua_tonumber(raw, -1));
            self.reset();
            Ok(number)
        }
    }

    /// Pushes a global if it is a function; otherwise leaves the stack as it was.
    ///
    /// # Safety
    /// The stack must be at its floor.
    unsafe fn push_global_function(&mut self, name: Slot) -> bool {
        // SAFETY: the slot holds a string, and raw access to the globals calls no metamethod.
        unsafe {
            lua::lua_pushvalue(self.raw, name as c_int);
            lua::lua_rawget_(self.raw, lua::LUA_GLOBALSINDEX);
            let present = lua::lua_type(self.raw, -1) == lua::LUA_TFUNCTION;
            if !present {
                self.reset();
            }
            present
        }
    }

    /// Runs `body` inside a protected call, where it may raise Lua errors; the top `arguments`
    /// values of the stack become its arguments.
    ///
    /// A Lua error unwinds `body` like a panic would (both frames are "C-unwind" or Rust), so its
    /// values are dropped. It must not catch panics around calls that raise.
    fn protect<R>(
        &mut self,
        arguments: c_int,
        body: impl FnOnce(*mut lua_State) -> R,
    ) -> Result<R, Message> {
        let mut errand = Errand {
            body: Some(body),
            result: None,
        };
        // SAFETY: the mailbox lives as long as the state; the slots hold the C function and the
        // handler; `errand` outlives the call, and no task is left that points to it.
        let status = unsafe {
            (*self.mailbox).task = Some(errand.task());
            lua::lua_pushvalue(self.raw, Slot::Enter as c_int);
            lua::lua_insert(self.raw, -1 - arguments);
            let status = lua::lua_pcall(self.raw, arguments, 0, Slot::Explain as c_int);
            (*self.mailbox).task = None;
            status
        };
        if status != lua::LUA_OK {
            return Err(self.take_error());
        }
        self.reset();
        errand
            .result
            .ok_or_else(|| "the Lua state lost a call".to_owned())
    }

    /// Takes the error message from the top of the stack.
    fn take_error(&mut self) -> Message {
        // SAFETY: after a failed call there is an error value on top; strings are copied.
        let message = unsafe {
            match lua::lua_type(self.raw, -1) {
                lua::LUA_TSTRING => one_line(string_at(self.raw, -1)),
                other => format!("(error object is {})", type_phrase(self.raw, other)),
            }
        };
        self.reset();
        message
    }

    /// Drops everything above the fixed slots.
    fn reset(&mut self) {
        // SAFETY: lowering the top is always allowed; before the foundation is laid, the stack
        // only grows by nils, within LUA_MINSTACK.
        unsafe { lua::lua_settop(self.raw, SLOTS as c_int) };
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // SAFETY: the state is open and closed only here; what its closures point to is freed after
        // it, since finalizers may still call natives. The pointers come from `Box::into_raw`.
        unsafe {
            lua::lua_close(self.raw);
            drop(Box::from_raw(self.mailbox));
            for native in self.natives.drain(..) {
                drop(Box::from_raw(native));
            }
        }
    }
}

/// A closure on its way through [`enter`], and its result on the way back.
struct Errand<F, R> {
    body: Option<F>,
    result: Option<R>,
}

impl<F: FnOnce(*mut lua_State) -> R, R> Errand<F, R> {
    fn task(&mut self) -> Task {
        Task {
            run: Self::run,
            data: (&raw mut *self).cast(),
        }
    }

    /// # Safety
    /// `data` must be the `Errand` that made the task.
    unsafe fn run(raw: *mut lua_State, data: *mut c_void) {
        // SAFETY: by the contract, and nobody else uses the errand during the call.
        let errand = unsafe { &mut *data.cast::<Self>() };
        if let Some(body) = errand.body.take() {
            errand.result = Some(body(raw));
        }
    }
}

/// The C function under every protected call: runs the task in the mailbox.
unsafe extern "C-unwind" fn enter(raw: *mut lua_State) -> c_int {
    // SAFETY: the upvalue is the mailbox of this state, which lives as long as the state. It is
    // not borrowed while the task runs.
    unsafe {
        let mailbox = lua::lua_touserdata(raw, lua::lua_upvalueindex(1)).cast::<Mailbox>();
        if let Some(task) = (*mailbox).task.take() {
            (task.run)(raw, task.data);
        }
    }
    0
}

/// The C function behind every native: copies the arguments, calls, pushes the results.
unsafe extern "C-unwind" fn call_native(raw: *mut lua_State) -> c_int {
    // SAFETY: the upvalue points to a boxed native that lives as long as the state. Reading does
    // not raise, so no Lua error passes through `catch_unwind`; pushing may raise, which drops the
    // values here and ends in the protected call below this frame.
    unsafe {
        let native = lua::lua_touserdata(raw, lua::lua_upvalueindex(1)).cast::<Native>();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let count = lua::lua_gettop(raw);
            let arguments: Result<Vec<_>, _> = (1..=count).map(|at| read(raw, at)).collect();
            (*native)(&arguments?)
        }));
        let outcome = outcome.unwrap_or_else(|_| Err("internal error, please report it".into()));
        match outcome {
            Ok(values) => push_all(raw, &values),
            Err(message) => {
                lua::lua_pushnil(raw);
                push_bytes(raw, message.as_bytes());
                2
            }
        }
    }
}

/// What [`lay_foundation`] needs, and the registry references it gives back, in slot order.
struct Foundation<'a> {
    source: &'a str,
    given: &'a Value,
    names: &'a [&'static CStr],
    natives: &'a [*mut Native],
    mailbox: *mut Mailbox,
    slots: [c_int; SLOTS],
    host_ref: c_int,
}

/// Opens the libraries, runs wrk.lua and keeps what the slots need in the registry.
unsafe extern "C-unwind" fn lay_foundation(raw: *mut lua_State) -> c_int {
    // SAFETY: called by `lua_cpcall` with a `Foundation`, so errors may be raised. The pointers
    // given to closures stay valid until the state is closed (see `State`).
    unsafe {
        let foundation = &mut *lua::lua_touserdata(raw, 1).cast::<Foundation<'_>>();
        lua::luaL_openlibs(raw);
        run_source(raw, foundation);
        let host = lua::lua_gettop(raw);

        lua::lua_getfield_(raw, host, c"explain".as_ptr());
        foundation.slots[Slot::Explain as usize - 1] = keep(raw);
        lua::lua_pushlightuserdata(raw, foundation.mailbox.cast());
        lua::lua_pushcclosure(raw, enter, 1);
        foundation.slots[Slot::Enter as usize - 1] = keep(raw);
        lua::lua_getfield_(raw, host, c"default_request".as_ptr());
        foundation.slots[Slot::DefaultRequest as usize - 1] = keep(raw);
        let names = [
            (Slot::Request, "request"),
            (Slot::Response, "response"),
            (Slot::Delay, "delay"),
        ];
        for (slot, name) in names {
            push_bytes(raw, name.as_bytes());
            foundation.slots[slot as usize - 1] = keep(raw);
        }
        foundation.host_ref = keep(raw);
    }
    0
}

/// Runs wrk.lua and leaves its result on the stack.
///
/// # Safety
/// Must run inside a protected call.
unsafe fn run_source(raw: *mut lua_State, foundation: &Foundation<'_>) {
    let source = foundation.source.as_bytes();
    // SAFETY: by the contract; the buffer is read within the call only.
    unsafe {
        let text = source.as_ptr().cast::<c_char>();
        if lua::luaL_loadbuffer(raw, text, source.len(), c"=wrk.lua".as_ptr()) != lua::LUA_OK {
            lua::lua_error(raw);
        }
        lua::lua_createtable(raw, 0, foundation.names.len() as c_int);
        for (name, native) in foundation.names.iter().zip(foundation.natives) {
            lua::lua_pushlightuserdata(raw, native.cast());
            lua::lua_pushcclosure(raw, call_native, 1);
            lua::lua_setfield(raw, -2, name.as_ptr());
        }
        push(raw, foundation.given);
        lua::lua_call(raw, 2, 1);
    }
}

/// Moves the top of the stack into the registry.
///
/// # Safety
/// Must run inside a protected call, with a value on the stack.
unsafe fn keep(raw: *mut lua_State) -> c_int {
    // SAFETY: by the contract.
    unsafe { lua::luaL_ref(raw, lua::LUA_REGISTRYINDEX) }
}

/// Longest error message that is shown, in bytes.
const MESSAGE_MAX: usize = 1000;

/// An error message without line breaks (`require` lists its search in many lines), of bounded
/// length.
fn one_line(message: &[u8]) -> Message {
    let shown = &message[..message.len().min(MESSAGE_MAX)];
    let text = String::from_utf8_lossy(shown);
    let mut line = String::with_capacity(text.len());
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line.push_str(if line.ends_with([':', ';']) {
                " "
            } else {
                "; "
            });
        }
        line.push_str(part);
    }
    line.retain(|character| !character.is_control());
    if message.len() > MESSAGE_MAX {
        line.push_str("...");
    }
    line
}

/// A script as every state gets it. It is read once: a pipe gives its text to the first reader only.
pub(crate) struct ScriptText {
    bytes: Vec<u8>,
    /// The path as given behind an `@`, which Lua's messages and `debug.getinfo` take for a file.
    chunk_name: CString,
}

impl ScriptText {
    /// Reads a script.
    ///
    /// # Errors
    /// When the path contains a NUL byte or the file cannot be read; in LuaJIT's words.
    pub(crate) fn read(path: &Path) -> Result<Self, Message> {
        let chunk_name = CString::new([b"@", path.as_os_str().as_bytes()].concat())
            .map_err(|_| format!("{}: the path contains a NUL byte", path.display()))?;
        let bytes = std::fs::read(path).map_err(|error| {
            let verb = match error.kind() {
                std::io::ErrorKind::IsADirectory => "read",
                _ => "open",
            };
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            format!("cannot {verb} {}: {reason}", path.display())
        })?;
        Ok(Self { bytes, chunk_name })
    }
}

/// Writes out what C's stdio holds back.
///
/// Lua's `print` and `io.write` go to C's buffers, the report does not: call this in between.
pub fn flush_stdout() {
    // SAFETY: a null stream means all output streams; stdio locks them itself.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Sends what scripts print from here on to stderr, and gives the real stdout to the caller alone.
/// For output that a program reads: a stray `print` would spoil it.
///
/// # Errors
/// When the descriptors cannot be duplicated.
pub fn divert_stdout() -> std::io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    let real = std::io::stdout().as_fd().try_clone_to_owned()?;
    flush_stdout();
    // SAFETY: both are descriptors of this process; dup2 replaces the second in one step.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(real.into())
}
