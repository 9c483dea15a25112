//! One Lua state. All the `unsafe` that LuaJIT needs is in this module.
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

/// A function that wrk.lua calls. On `Err`, the Lua side sees nil and the message.
pub(crate) type Native = Box<dyn Fn(&[Value]) -> Result<Vec<Value>, String> + Send>;

/// A Lua error message, on one line.
pub(crate) type Message = String;

/// Why `request()` returned nothing to send.
#[derive(Debug)]
pub(crate) enum RequestFault {
    /// It raised an error.
    Raised(Message),
    /// It returned nil: there is no other request.
    Nil,
    /// It returned something that is not a request, e.g. `a table` or `an empty string`.
    Returned(String),
}

/// A Lua state with all libraries, `wrk.lua` and, later, the script.
///
/// The lowest slots of its stack are fixed (see `Slot`), so that the calls made for every request
/// need no allocation of their own. Everything that can raise a Lua error runs under `lua_pcall`.
pub(crate) struct LuaState {
    raw: *mut lua_State,
    /// Registry reference of wrk.lua's table.
    host_ref: c_int,
    /// Boxes that Lua closures point to until the state is closed.
    pending_task: *mut PendingTask,
    natives: Vec<*mut Native>,
}

// SAFETY: a Lua state is not tied to a thread. It must only be used by one thread at a time, which
// `&mut self` in every method ensures. The natives are `Send`, and the pending task is used only
// during a call.
unsafe impl Send for LuaState {}

/// Stack positions whose values are constant for the life of the state.
#[derive(Clone, Copy)]
#[repr(i32)]
enum Slot {
    /// `explain` of wrk.lua, the error handler of every call.
    Explain = 1,
    /// The C function [`enter`].
    Enter,
    /// `default_request` of wrk.lua, which makes requests without a script.
    DefaultRequest,
    /// Names of the globals that are looked up during the run.
    Request,
    Response,
    Delay,
}

const SLOTS: usize = 6;

/// The task for [`enter`]. C functions find it in their upvalue, so that passing a task cannot fail
/// for lack of memory.
struct PendingTask {
    task: Option<Task>,
}

#[derive(Clone, Copy)]
struct Task {
    run: unsafe fn(*mut lua_State, *mut c_void),
    data: *mut c_void,
}

impl LuaState {
    /// A state with all libraries, in which `source` (wrk.lua) has run with `natives` and `given`.
    ///
    /// # Errors
    /// If there is no memory, or `source` fails.
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
        let pending_task = Box::into_raw(Box::new(PendingTask { task: None }));
        let (names, natives): (Vec<_>, Vec<_>) = natives
            .into_iter()
            .map(|(name, native)| (name, Box::into_raw(Box::new(native))))
            .unzip();
        let mut state = Self {
            raw,
            host_ref: 0,
            pending_task,
            natives,
        };
        let mut initialization = Initialization {
            source,
            given,
            names: &names,
            natives: &state.natives,
            pending_task,
            slots: [0; SLOTS],
            host_ref: 0,
        };
        let data = (&raw mut initialization).cast();
        // SAFETY: the state is open. `initialize` gets the structure that it expects, which
        // outlives the call. `lua_cpcall` is a protected call.
        let status = unsafe { lua::lua_cpcall(raw, initialize, data) };
        let (slots, host_ref) = (initialization.slots, initialization.host_ref);
        if status != lua::LUA_OK {
            return Err(state.take_error());
        }
        state.host_ref = host_ref;
        for reference in slots {
            // SAFETY: reading the registry into a free slot neither allocates nor raises. A new
            // stack has LUA_MINSTACK slots.
            unsafe { lua::lua_rawgeti_(raw, lua::LUA_REGISTRYINDEX, reference) };
        }
        Ok(state)
    }

    /// Loads and runs the text of a script.
    ///
    /// # Errors
    /// If it has a syntax error, or fails.
    pub(crate) fn run_script(&mut self, script: &ScriptText) -> Result<(), Message> {
        self.protect(0, |raw| {
            let text = script.bytes.as_ptr().cast::<c_char>();
            let name = script.chunk_name.as_ptr();
            // SAFETY: runs within `protect`, so errors may be raised. The text is read within the
            // call only, and the name ends with NUL.
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
    /// If it raises an error or returns something that cannot be transferred.
    pub(crate) fn call(&mut self, name: &CStr, arguments: &[Value]) -> Result<Value, Message> {
        let host_ref = self.host_ref;
        self.protect(0, |raw| {
            // SAFETY: runs within `protect`. `host_ref` is the table in the registry.
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
    /// If it fails or does not return a request.
    pub(crate) fn request(&mut self, output: &mut Vec<u8>) -> Result<(), RequestFault> {
        let raw = self.raw;
        // SAFETY: the slots are below the floor. A raw read of a global neither allocates nor
        // raises. The call itself is protected. The string is copied while it is on the stack.
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
                lua::LUA_TNIL => {
                    self.reset();
                    return Err(RequestFault::Nil);
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

    /// Calls the global `response`, if it currently is a function.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn response(&mut self, response: &Captured) -> Result<(), Message> {
        // SAFETY: as in `request`.
        if !unsafe { self.push_global_function(Slot::Response) } {
            return Ok(());
        }
        self.protect(1, |raw| {
            // SAFETY: runs within `protect`, with the function as argument 1. A C function has
            // LUA_MINSTACK slots, of which at most six are used.
            unsafe {
                lua::lua_pushnumber(raw, f64::from(response.status));
                push_headers(raw, &response.headers);
                push_bytes(raw, &response.body);
                lua::lua_call(raw, 3, 0);
            }
        })
    }

    /// Calls the global `delay`, if it currently is a function. Numbers and numeric strings are
    /// returned as numbers, anything else as `None`.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) fn delay(&mut self) -> Result<Option<f64>, Message> {
        let raw = self.raw;
        // SAFETY: as in `request`. `lua_isnumber` and `lua_tonumber` do not convert in place.
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

    /// Pushes a global if it is a function. Otherwise leaves the stack unchanged.
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

    /// Runs `body` inside a protected call, where it may raise Lua errors. The top `arguments`
    /// values of the stack become its arguments.
    ///
    /// A Lua error unwinds `body` like a panic (both frames are "C-unwind" or Rust), so its values
    /// are dropped. It must not catch panics around calls that raise.
    fn protect<R>(
        &mut self,
        arguments: c_int,
        body: impl FnOnce(*mut lua_State) -> R,
    ) -> Result<R, Message> {
        let mut protected_call = ProtectedCall {
            body: Some(body),
            result: None,
        };
        // SAFETY: the pending task lives as long as the state. The slots hold the C function and
        // the handler. `protected_call` outlives the call, and no task that points to it is left
        // behind.
        let status = unsafe {
            (*self.pending_task).task = Some(protected_call.task());
            lua::lua_pushvalue(self.raw, Slot::Enter as c_int);
            lua::lua_insert(self.raw, -1 - arguments);
            let status = lua::lua_pcall(self.raw, arguments, 0, Slot::Explain as c_int);
            (*self.pending_task).task = None;
            status
        };
        if status != lua::LUA_OK {
            return Err(self.take_error());
        }
        self.reset();
        protected_call
            .result
            .ok_or_else(|| "the Lua state lost a call".to_owned())
    }

    /// Takes the error message from the top of the stack.
    fn take_error(&mut self) -> Message {
        // SAFETY: after a failed call, the error value is on top. Strings are copied.
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
        // SAFETY: lowering the top is always allowed. Before the fixed slots are set, the stack
        // only grows by nils, within LUA_MINSTACK.
        unsafe { lua::lua_settop(self.raw, SLOTS as c_int) };
    }
}

impl Drop for LuaState {
    fn drop(&mut self) {
        // SAFETY: the state is open and closed only here. What its closures point to is freed
        // afterwards, since finalizers may still call natives. The pointers come from
        // `Box::into_raw`.
        unsafe {
            lua::lua_close(self.raw);
            drop(Box::from_raw(self.pending_task));
            for native in self.natives.drain(..) {
                drop(Box::from_raw(native));
            }
        }
    }
}

/// A closure to be run by [`enter`], and its result.
struct ProtectedCall<F, R> {
    body: Option<F>,
    result: Option<R>,
}

impl<F: FnOnce(*mut lua_State) -> R, R> ProtectedCall<F, R> {
    fn task(&mut self) -> Task {
        Task {
            run: Self::run,
            data: (&raw mut *self).cast(),
        }
    }

    /// # Safety
    /// `data` must be the `ProtectedCall` that made the task.
    unsafe fn run(raw: *mut lua_State, data: *mut c_void) {
        // SAFETY: by the contract, and nothing else uses the protected_call during the call.
        let protected_call = unsafe { &mut *data.cast::<Self>() };
        if let Some(body) = protected_call.body.take() {
            protected_call.result = Some(body(raw));
        }
    }
}

/// The C function of every protected call: runs the task in the pending_task.
unsafe extern "C-unwind" fn enter(raw: *mut lua_State) -> c_int {
    // SAFETY: the upvalue is the pending task of this state, which lives as long as the state. It
    // is not borrowed while the task runs.
    unsafe {
        let pending_task = lua::lua_touserdata(raw, lua::lua_upvalueindex(1)).cast::<PendingTask>();
        if let Some(task) = (*pending_task).task.take() {
            (task.run)(raw, task.data);
        }
    }
    0
}

/// The C function of every native: copies the arguments, calls the native, pushes the results.
unsafe extern "C-unwind" fn call_native(raw: *mut lua_State) -> c_int {
    // SAFETY: the upvalue points to a boxed native that lives as long as the state. Reading does
    // not raise, so no Lua error passes through `catch_unwind`. Pushing may raise, which drops the
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

/// Input of [`initialize`], and the registry references that it returns, in slot order.
struct Initialization<'a> {
    source: &'a str,
    given: &'a Value,
    names: &'a [&'static CStr],
    natives: &'a [*mut Native],
    pending_task: *mut PendingTask,
    slots: [c_int; SLOTS],
    host_ref: c_int,
}

/// Opens the libraries, runs wrk.lua and stores the values of the slots in the registry.
unsafe extern "C-unwind" fn initialize(raw: *mut lua_State) -> c_int {
    // SAFETY: called by `lua_cpcall` with a `Initialization`, so errors may be raised. The pointers
    // given to closures stay valid until the state is closed (see `LuaState`).
    unsafe {
        let initialization = &mut *lua::lua_touserdata(raw, 1).cast::<Initialization<'_>>();
        lua::luaL_openlibs(raw);
        run_source(raw, initialization);
        let host = lua::lua_gettop(raw);

        lua::lua_getfield_(raw, host, c"explain".as_ptr());
        initialization.slots[Slot::Explain as usize - 1] = store_in_registry(raw);
        lua::lua_pushlightuserdata(raw, initialization.pending_task.cast());
        lua::lua_pushcclosure(raw, enter, 1);
        initialization.slots[Slot::Enter as usize - 1] = store_in_registry(raw);
        lua::lua_getfield_(raw, host, c"default_request".as_ptr());
        initialization.slots[Slot::DefaultRequest as usize - 1] = store_in_registry(raw);
        let names = [
            (Slot::Request, "request"),
            (Slot::Response, "response"),
            (Slot::Delay, "delay"),
        ];
        for (slot, name) in names {
            push_bytes(raw, name.as_bytes());
            initialization.slots[slot as usize - 1] = store_in_registry(raw);
        }
        initialization.host_ref = store_in_registry(raw);
    }
    0
}

/// Runs wrk.lua and leaves its result on the stack.
///
/// # Safety
/// Must run inside a protected call.
unsafe fn run_source(raw: *mut lua_State, initialization: &Initialization<'_>) {
    let source = initialization.source.as_bytes();
    // SAFETY: by the contract. The buffer is read within the call only.
    unsafe {
        let text = source.as_ptr().cast::<c_char>();
        if lua::luaL_loadbuffer(raw, text, source.len(), c"=wrk.lua".as_ptr()) != lua::LUA_OK {
            lua::lua_error(raw);
        }
        lua::lua_createtable(raw, 0, initialization.names.len() as c_int);
        for (name, native) in initialization.names.iter().zip(initialization.natives) {
            lua::lua_pushlightuserdata(raw, native.cast());
            lua::lua_pushcclosure(raw, call_native, 1);
            lua::lua_setfield(raw, -2, name.as_ptr());
        }
        push(raw, initialization.given);
        lua::lua_call(raw, 2, 1);
    }
}

/// Moves the top of the stack into the registry.
///
/// # Safety
/// Must run inside a protected call, with a value on the stack.
unsafe fn store_in_registry(raw: *mut lua_State) -> c_int {
    // SAFETY: by the contract.
    unsafe { lua::luaL_ref(raw, lua::LUA_REGISTRYINDEX) }
}

/// Longest error message to show, in bytes.
const MESSAGE_MAX: usize = 1000;

/// An error message without line breaks, of bounded length. (`require` lists its search in many
/// lines.)
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

/// The largest script. Data of more than this belongs into files that the script reads.
const MAX_SCRIPT_BYTES: u64 = 64 << 20;

/// A script, for all states. It is read once, because only the first reader of a pipe gets its
/// text.
pub(crate) struct ScriptText {
    bytes: Vec<u8>,
    /// The given path with a leading `@`, which marks it as a file in Lua's messages and
    /// `debug.getinfo`.
    chunk_name: CString,
}

impl ScriptText {
    /// Reads a script.
    ///
    /// # Errors
    /// If the path contains a NUL byte or the file cannot be read. The message is LuaJIT's where
    /// LuaJIT has one.
    pub(crate) fn read(path: &Path) -> Result<Self, Message> {
        let chunk_name = CString::new([b"@", path.as_os_str().as_bytes()].concat())
            .map_err(|_| format!("{}: the path contains a NUL byte", path.display()))?;
        let bytes = files::read(path, MAX_SCRIPT_BYTES).map_err(|error| {
            let reason = error.to_string();
            let (verb, reason) = match error.kind() {
                std::io::ErrorKind::IsADirectory => ("read", "Is a directory"),
                _ => (
                    "open",
                    reason.split(" (os error").next().unwrap_or_default(),
                ),
            };
            format!("cannot {verb} {}: {reason}", path.display())
        })?;
        Ok(Self { bytes, chunk_name })
    }
}

/// Flushes C's stdio.
///
/// Lua's `print` and `io.write` use C's buffers, but the report does not. Call this in between.
pub fn flush_stdout() {
    // SAFETY: a null stream means all output streams. stdio locks them itself.
    unsafe { libc::fflush(std::ptr::null_mut()) };
}

/// Redirects the scripts' output to stderr, and returns the real stdout. For output that is read by
/// a program and must not contain what a script prints.
///
/// # Errors
/// If the descriptors cannot be duplicated.
pub fn divert_stdout() -> std::io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    let real = std::io::stdout().as_fd().try_clone_to_owned()?;
    flush_stdout();
    // SAFETY: both are descriptors of this process. dup2 replaces the second in one step.
    if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(real.into())
}
