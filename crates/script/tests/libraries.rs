//! The language of scripts: LuaJIT with all of its libraries.

mod script_test;

use script_test::{ScriptTest, file};

#[test]
fn the_language_is_lua_5_1_with_luajits_additions() {
    ScriptTest::script(
        r#"
        assert(_VERSION == "Lua 5.1" and jit.version:find("^LuaJIT 2%.1"))
        assert(unpack and loadstring and setfenv and table.getn({ 1, 2 }) == 2 and math.pow(2, 3) == 8)
        assert(table.move and "\x41\z
          B" == "AB")
        for i = 1, 2 do if i == 1 then goto continue end ::continue:: end
        assert(tostring(10 / 2) == "5" and string.format("%d", 3.7) == "3")
        assert(utf8 == nil and not loadstring("return 7 // 2"))
        -- Without the 5.2 extensions, as wrk builds it: # ignores __len of tables.
        assert(#setmetatable({}, { __len = function() return 9 end }) == 0)
        "#,
    )
    .check();
}

#[test]
fn ffi_bit_and_jit_work() {
    ScriptTest::script(
        r#"
        assert(ffi == nil)
        local ffi = require("ffi")
        ffi.cdef("int getpid(void);")
        assert(ffi.C.getpid() > 0)
        assert(bit.bor(1, 2, 4) == 7 and require("bit") == bit)
        assert(type(jit.status()) == "boolean" and require("jit") == jit)
        "#,
    )
    .check();
}

#[test]
fn compiled_loops_compute_correctly() {
    let test = ScriptTest::script(
        "function request()
           local sum = 0
           for i = 1, 1e6 do sum = sum + i % 7 end
           return wrk.format('GET', '/' .. sum)
         end",
    );
    let (_script, mut source) = test.one();
    for _ in 0..20 {
        assert!(script_test::next(&mut source).starts_with("GET /2999998 "));
    }
}

#[test]
fn io_and_os_work() {
    let path = file("data.txt", "one\ntwo\n");
    ScriptTest::script(
        r#"
        local lines = {}
        for line in io.lines(wrk.headers["X-File"]) do lines[#lines + 1] = line end
        assert(#lines == 2 and lines[2] == "two")
        assert(type(os.time()) == "number" and os.getenv("PATH") and type(os.clock()) == "number")
        "#,
    )
    .header("X-File", path.to_str().unwrap())
    .check();
}

#[test]
fn modules_that_came_with_the_script_are_found_before_all_others() {
    let module = file("with_the_script.lua", "return { answer = 42 }");
    let folder = module.parent().expect("it is in a folder").to_owned();
    let mut test = ScriptTest::script(
        "package.path = package.path .. ';/elsewhere/?.lua'
         assert(require('with_the_script').answer == 42)",
    );
    test.modules = Some(folder.clone());
    let mut script = test.load().expect("the module is there");
    let paths = script.module_paths().expect("a text");
    let first = folder.join("?.lua").to_string_lossy().into_owned();
    assert_eq!(paths.first(), Some(&first));
    assert_eq!(paths.last().map(String::as_str), Some("/elsewhere/?.lua"));
    test.modules = None;
    assert!(test.load().is_err(), "nobody else has this module");
}

#[test]
fn require_looks_in_the_working_directory_first() {
    ScriptTest::script(
        r#"
        assert(package.path:find("^%./%?%.lua;"), package.path)
        package.path = wrk.headers["X-Folder"] .. "/?.lua;" .. package.path
        assert(require("module_of_test").answer == 42)
        "#,
    )
    .header(
        "X-Folder",
        file("module_of_test.lua", "return { answer = 42 }")
            .parent()
            .unwrap()
            .to_str()
            .unwrap(),
    )
    .check();
}

#[test]
fn the_script_knows_its_own_file_name() {
    let test =
        ScriptTest::script("assert(debug.getinfo(1, 'S').source == '@' .. wrk.headers['X-Self'])");
    let path = test.path.clone().unwrap();
    test.header("X-Self", path.to_str().unwrap()).check();
}

#[test]
fn a_shebang_line_is_skipped() {
    ScriptTest::script("#!/usr/bin/env wrkbench\nassert(true)").check();
}

#[test]
fn scripts_cannot_access_the_host_functions() {
    ScriptTest::script(
        r#"
        for _, name in ipairs({ "native", "given", "host", "explain" }) do
          assert(_G[name] == nil)
        end
        assert(wrk.thread == nil and wrk.addrs == nil and wrk.request == nil)
        "#,
    )
    .check();
}

#[test]
fn modules_are_also_found_where_distributions_install_them() {
    ScriptTest::script(
        r#"
        local function has(path, place)
          return (";" .. path .. ";"):find(";" .. place .. ";", 1, true)
        end
        assert(has(package.path, "/usr/share/lua/5.1/?.lua"), package.path)
        assert(has(package.path, "/usr/share/lua/5.1/?/init.lua"), package.path)
        assert(has(package.path, "/usr/local/share/lua/5.1/?.lua"), package.path)
        local debian = jit.arch == "x64" and "/usr/lib/x86_64-linux-gnu/lua/5.1/?.so"
          or jit.arch == "arm64" and "/usr/lib/aarch64-linux-gnu/lua/5.1/?.so"
        assert(not debian or has(package.cpath, debian), package.cpath)
        assert(has(package.cpath, "/usr/lib64/lua/5.1/?.so"), package.cpath)
        "#,
    )
    .check();
}

/// LuaJIT compiles the loop. The string that is too long is then an error below compiled code,
/// which only a registered unwind table leads out of.
#[test]
fn an_error_in_compiled_code_is_caught() {
    ScriptTest::script(
        r#"
        local text, counts = string.rep("x", 10000), {}
        for i = 1, 300 do counts[i] = 1 end
        local function lengths()
          local sum = 0
          for i = 1, #counts do
            sum = sum + #string.rep(text, counts[i])
          end
          return sum
        end
        for _ = 1, 3 do
          counts[300] = 1
          assert(lengths() == 3000000)
          counts[300] = 1000000
          local fine, message = pcall(lengths)
          assert(not fine and message:find("memory") or message:find("overflow"), message)
        end
        "#,
    )
    .check();
}

#[test]
fn a_module_that_is_not_found_is_reported_with_the_kinds_that_can_be_loaded() {
    let test = ScriptTest::script("require('module_that_nobody_has')");
    let message = test.failure();
    assert!(message.contains("module 'module_that_nobody_has' not found"));
    assert_eq!(
        message.contains("the static build of wrkbench loads only modules written in Lua"),
        cfg!(target_feature = "crt-static"),
        "{message}"
    );
}

#[cfg(target_feature = "crt-static")]
#[test]
fn a_static_build_says_that_it_cannot_load_c_code() {
    let library = file("written_in_c.so", "");
    ScriptTest::script(
        r#"
        package.cpath = wrk.headers["X-Folder"] .. "/?.so"
        local cannot = "is written in C, and the static build of wrkbench cannot load that"
        local fine, message = pcall(require, "written_in_c")
        assert(not fine and message:find("written_in_c.so " .. cannot, 1, true), message)
        local ffi = require("ffi")
        fine, message = pcall(ffi.load, "z")
        assert(not fine and message:find("libz.so " .. cannot, 1, true), message)
        ffi.cdef("int nobody_has_this(void); int usleep(unsigned);")
        ffi.cdef("long strtol(const char *, void *, int);")
        fine, message = pcall(function() return ffi.C.nobody_has_this end)
        assert(not fine and message:find("^[^:]*:?%d*:? ?nobody_has_this is none of"), message)
        assert(ffi.C.usleep(1) == 0 and ffi.load("c").strtol("42", nil, 10) == 42)
        "#,
    )
    .header("X-Folder", library.parent().unwrap().to_str().unwrap())
    .check();
}
