//! Transfer of values between Rust and a Lua stack.

use std::ffi::{CStr, c_int};
use std::slice;

use engine::source::Fields;
use mlua_sys as lua;
use mlua_sys::lua_State;

use crate::transfer::{DEPTH_MAX, TABLE_WEIGHT, VALUES_MAX, Value};

/// Pushes a table of name → value. The last of several headers with one name wins.
///
/// # Safety
/// Must run inside a protected call.
pub(super) unsafe fn push_headers(raw: *mut lua_State, headers: &Fields) {
    // SAFETY: by the contract. Three slots are used.
    unsafe {
        lua::lua_createtable(raw, 0, c_int::try_from(headers.len()).unwrap_or(0));
        for (name, value) in headers.iter() {
            push_bytes(raw, name);
            push_bytes(raw, value);
            lua::lua_rawset(raw, -3);
        }
    }
}

/// Pushes values and returns their number.
///
/// # Safety
/// Must run inside a protected call.
pub(super) unsafe fn push_all(raw: *mut lua_State, values: &[Value]) -> c_int {
    let count = c_int::try_from(values.len()).unwrap_or(c_int::MAX);
    // SAFETY: by the contract. The stack is extended, or an error is raised.
    unsafe {
        lua::luaL_checkstack_(raw, count, c"too many values".as_ptr());
        for value in values {
            push(raw, value);
        }
    }
    count
}

/// Pushes a copy of a value.
///
/// # Safety
/// Must run inside a protected call, with a free slot.
pub(super) unsafe fn push(raw: *mut lua_State, value: &Value) {
    // SAFETY: by the contract. Tables ask for the slots that their content needs. Values are nested
    // at most DEPTH_MAX deep, so recursion is bounded.
    unsafe {
        match value {
            Value::Nil => lua::lua_pushnil(raw),
            Value::Boolean(truth) => lua::lua_pushboolean(raw, c_int::from(*truth)),
            Value::Number(number) => lua::lua_pushnumber(raw, *number),
            Value::Text(bytes) => push_bytes(raw, bytes),
            Value::Table(pairs) => {
                lua::luaL_checkstack_(raw, 3, c"table nested too deep".as_ptr());
                lua::lua_createtable(raw, 0, c_int::try_from(pairs.len()).unwrap_or(0));
                for (key, value) in pairs {
                    push(raw, key);
                    push(raw, value);
                    lua::lua_rawset(raw, -3);
                }
            }
        }
    }
}

/// # Safety
/// Must run inside a protected call, with a free slot.
pub(super) unsafe fn push_bytes(raw: *mut lua_State, bytes: &[u8]) {
    // SAFETY: by the contract. Lua copies the bytes.
    unsafe { lua::lua_pushlstring_(raw, bytes.as_ptr().cast(), bytes.len()) };
}

/// Copies a value out of the state. Calls no metamethod and raises nothing.
///
/// # Safety
/// `at` must be a valid stack position.
pub(super) unsafe fn read(raw: *mut lua_State, at: c_int) -> Result<Value, String> {
    let mut budget = VALUES_MAX;
    // SAFETY: by the contract.
    unsafe { read_nested(raw, at, DEPTH_MAX, &mut budget) }
}

/// # Safety
/// `at` must be a valid stack position.
unsafe fn read_nested(
    raw: *mut lua_State,
    at: c_int,
    depth: usize,
    budget: &mut usize,
) -> Result<Value, String> {
    // SAFETY: by the contract.
    let kind = unsafe { lua::lua_type(raw, at) };
    let weight = if kind == lua::LUA_TTABLE {
        TABLE_WEIGHT
    } else {
        1
    };
    *budget = budget.checked_sub(weight).ok_or_else(|| {
        format!("cannot transfer a table with more than {VALUES_MAX} values to thread")
    })?;
    // SAFETY: by the contract. Each access matches the type that was checked before.
    unsafe {
        Ok(match kind {
            lua::LUA_TNONE | lua::LUA_TNIL => Value::Nil,
            lua::LUA_TBOOLEAN => Value::Boolean(lua::lua_toboolean(raw, at) != 0),
            lua::LUA_TNUMBER => Value::Number(lua::lua_tonumber(raw, at)),
            lua::LUA_TSTRING => Value::Text(string_at(raw, at).to_vec()),
            lua::LUA_TTABLE => Value::Table(read_pairs(raw, at, depth, budget)?),
            other => {
                let name = CStr::from_ptr(lua::lua_typename(raw, other)).to_string_lossy();
                return Err(format!("cannot transfer '{name}' to thread"));
            }
        })
    }
}

/// # Safety
/// There must be a table at `at`.
unsafe fn read_pairs(
    raw: *mut lua_State,
    at: c_int,
    depth: usize,
    budget: &mut usize,
) -> Result<Vec<(Value, Value)>, String> {
    let deeper = depth.checked_sub(1).ok_or_else(|| {
        format!("cannot transfer a table that nests deeper than {DEPTH_MAX} levels to thread")
    })?;
    let mut pairs = Vec::new();
    // SAFETY: by the contract. `lua_next` gets the key that it returned. Nothing converts the key,
    // since only strings are read as strings. The stack is left unchanged, also on an error.
    unsafe {
        let top = lua::lua_gettop(raw);
        let table = if at < 0 { top + at + 1 } else { at };
        if lua::lua_checkstack(raw, 3) == 0 {
            return Err("cannot transfer a table: the Lua stack is full".to_owned());
        }
        lua::lua_pushnil(raw);
        while lua::lua_next(raw, table) != 0 {
            let pair = read_nested(raw, -2, deeper, budget)
                .and_then(|key| Ok((key, read_nested(raw, -1, deeper, budget)?)));
            match pair {
                Ok(pair) => pairs.push(pair),
                Err(message) => {
                    lua::lua_settop(raw, top);
                    return Err(message);
                }
            }
            lua::lua_settop(raw, -2);
        }
    }
    Ok(pairs)
}

/// The bytes of the string at a stack position.
///
/// # Safety
/// There must be a string (not a number) at `at`, and it must stay there while the bytes are used.
pub(super) unsafe fn string_at<'a>(raw: *mut lua_State, at: c_int) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: by the contract, the pointer is that of the string's own bytes.
    unsafe {
        let bytes = lua::lua_tolstring(raw, at, &raw mut length);
        slice::from_raw_parts(bytes.cast(), length)
    }
}

/// A number as Lua prints it.
///
/// # Safety
/// Must run inside a protected call.
pub(super) unsafe fn number_text(raw: *mut lua_State, number: f64) -> Vec<u8> {
    // SAFETY: by the contract. The number becomes a string in place.
    unsafe {
        lua::lua_pushnumber(raw, number);
        lua::lua_tolstring(raw, -1, std::ptr::null_mut());
        string_at(raw, -1).to_vec()
    }
}

/// `nil`, or a type with its article.
///
/// # Safety
/// `kind` must come from `lua_type`.
pub(super) unsafe fn type_phrase(raw: *mut lua_State, kind: c_int) -> String {
    if kind == lua::LUA_TNIL || kind == lua::LUA_TNONE {
        return "nil".to_owned();
    }
    // SAFETY: by the contract. Type names are static strings.
    let name = unsafe { CStr::from_ptr(lua::lua_typename(raw, kind)) };
    format!("a {}", name.to_string_lossy())
}
