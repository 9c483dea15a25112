//! thread:get, thread:set and thread.addr: values that cross Lua states.
#![allow(clippy::unwrap_used, reason = "a failing step fails the test")]

mod script_test;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use engine::source::Address;
use results::Recording;
use script::{Network, NetworkError};
use script_test::{ScriptTest, next, run_result, tcp};

#[test]
fn plain_values_and_nested_tables_are_transferred_both_ways() {
    ScriptTest::script(
        r#"
        local thread
        function setup(t)
          thread = t
          t:set("number", 1.5) t:set("truth", true) t:set("lie", false)
          t:set("text", "a\0b") t:set("gone", nil)
          t:set("tree", { 1, 2, { deep = { deeper = "x" } }, [true] = "y", [2.5] = "z", e = {} })
          assert(t:get("text") == "a\0b" and t:get("top") == "level")
        end
        top = "level"
        gone = "still here"
        function init()
          assert(number == 1.5 and truth == true and lie == false and text == "a\0b")
          assert(#text == 3 and gone == nil)
          assert(tree[1] == 1 and tree[2] == 2 and tree[3].deep.deeper == "x")
          assert(tree[true] == "y" and tree[2.5] == "z" and next(tree.e) == nil and #tree == 3)
          tree.back = { { { "home" } } }
        end
        function done()
          local tree = thread:get("tree")
          assert(tree.back[1][1][1] == "home" and tree[3].deep.deeper == "x")
          assert(thread:get("nothing") == nil and thread:get("lie") == false)
        end
        "#,
    )
    .check();
}

#[test]
fn a_transferred_table_is_a_copy() {
    ScriptTest::script(
        r#"
        local thread, list = nil, { 1 }
        function setup(t) thread = t t:set("list", list) list[1] = 2 end
        function init() assert(list[1] == 1) end
        function done()
          thread:get("list")[1] = 3
          assert(thread:get("list")[1] == 1 and list[1] == 2)
        end
        "#,
    )
    .check();
}

#[test]
fn a_thousand_gets_in_setup_and_in_done_work() {
    ScriptTest::script(
        r#"
        local threads = {}
        values = {}
        for i = 1, 100 do values[i] = { i } end
        local function read_often(thread)
          for _ = 1, 1000 do
            local copy = thread:get("values")
            assert(#copy == 100 and copy[100][1] == 100)
          end
        end
        function setup(thread) threads[#threads + 1] = thread read_often(thread) end
        function done() for _, thread in ipairs(threads) do read_often(thread) end end
        "#,
    )
    .check();
}

#[test]
fn a_thread_reads_and_writes_its_own_variables_through_its_handle() {
    ScriptTest::script(
        r#"
        counter = 1
        function init()
          wrk.thread:set("counter", wrk.thread:get("counter") + 1)
          assert(counter == 2 and _G.counter == 2)
          local list = { 1 }
          wrk.thread:set("list", list)
          assert(_G.list ~= list and _G.list[1] == 1)
          assert(not pcall(wrk.thread.set, wrk.thread, "f", print))
        end
        "#,
    )
    .check();
}

#[test]
fn values_that_cannot_be_transferred_are_reported_with_the_line_of_the_script() {
    for (value, said) in [
        ("print", "cannot transfer 'function' to thread"),
        ("{ 1, { print } }", "cannot transfer 'function' to thread"),
        ("{ [print] = 1 }", "cannot transfer 'function' to thread"),
        (
            "coroutine.create(print)",
            "cannot transfer 'thread' to thread",
        ),
        ("io.stdout", "cannot transfer 'userdata' to thread"),
        (
            "require('ffi').new('int[2]')",
            "cannot transfer 'cdata' to thread",
        ),
    ] {
        let script = format!("\nfunction setup(thread)\n  thread:set('x', {value})\nend");
        let message = ScriptTest::script(&script).failure();
        assert!(
            message.ends_with(&format!("script.lua:3: {said} (in setup)")),
            "{message}"
        );
    }
}

#[test]
fn a_table_that_contains_itself_is_rejected() {
    let message = ScriptTest::script(
        "local t = {} t.t = t
         function setup(thread) thread:set('x', t) end",
    )
    .failure();
    assert!(
        message.contains("nests deeper than 100 levels"),
        "{message}"
    );

    let message =
        ScriptTest::script("self = {} self.self = self function setup(t) t:get('self') end");
    assert!(message.failure().contains("nests deeper than 100 levels"));
}

#[test]
fn a_table_that_doubles_at_each_level_is_rejected_before_memory_runs_out() {
    let message = ScriptTest::script(
        "local t = {} for _ = 1, 60 do t = { t, t } end
         function setup(thread) thread:set('x', t) end",
    )
    .failure();
    assert!(message.contains("more than 20000000 values"), "{message}");
}

#[test]
fn wrong_uses_of_a_thread_are_reported_with_the_line_of_the_script() {
    for (statement, said) in [
        ("thread.x = 1", "cannot set 'x' on thread, use thread:set"),
        (
            "thread.addr = '127.0.0.1:80'",
            "must be an address from wrk.lookup, not a string",
        ),
        (
            "thread.addr = nil",
            "must be an address from wrk.lookup, not a nil",
        ),
        (
            "thread.get('x')",
            "call it as thread:get(...), with a colon",
        ),
        ("thread.stop()", "call it as thread:stop(...), with a colon"),
        (
            "thread:get(1)",
            "thread:get: the name must be a string, not a number",
        ),
        (
            "thread:set({}, 1)",
            "thread:set: the name must be a string, not a table",
        ),
    ] {
        let script = format!("function setup(thread)\n{statement}\nend");
        let message = ScriptTest::script(&script).failure();
        assert!(
            message.contains("script.lua:2: ") && message.contains(said),
            "{message}"
        );
    }
}

#[test]
fn a_thread_handle_has_only_its_own_fields() {
    ScriptTest::script(
        "function setup(thread)
           assert(type(thread) == 'userdata' and thread.unknown == 'unknown' and thread[1] == '1')
         end",
    )
    .check();
}

/// Blocks `connect` once armed, like a script that never returns.
struct Gate {
    armed: AtomicBool,
    entered: Mutex<Sender<()>>,
    release: Mutex<Receiver<()>>,
}

impl Network for Gate {
    fn lookup(&self, _host: &str, _service: &str) -> Result<Vec<Address>, NetworkError> {
        Ok(vec![tcp("127.0.0.1:80")])
    }

    fn connect(&self, _address: &Address) -> Result<(), NetworkError> {
        if self.armed.load(Ordering::SeqCst) {
            self.entered.lock().unwrap().send(()).unwrap();
            self.release.lock().unwrap().recv().unwrap();
        }
        Ok(())
    }
}

#[test]
fn get_of_a_thread_stuck_in_the_script_returns_nil_with_a_note_and_does_not_hang() {
    let (entered_sender, entered) = channel();
    let (release, release_receiver) = channel();
    let gate = Arc::new(Gate {
        armed: AtomicBool::new(false),
        entered: Mutex::new(entered_sender),
        release: Mutex::new(release_receiver),
    });
    let test = ScriptTest::script(
        r#"
        local threads = {}
        count = 7
        function setup(thread) threads[#threads + 1] = thread end
        function init() address = wrk.lookup("x", "1")[1] end
        function request() wrk.connect(address) return wrk.request() end
        function done()
          assert(threads[1]:get("count") == nil and threads[1]:get("count") == nil)
          assert(threads[2]:get("count") == 7)
          assert(not pcall(threads[1].set, threads[1], "count", 1))
        end
        "#,
    )
    .threads(2);
    let mut script = test.load_with(Arc::clone(&gate) as _).unwrap();
    let mut sources = script.start().unwrap();
    gate.armed.store(true, Ordering::SeqCst);
    let mut stuck = sources.remove(0);
    let worker = std::thread::spawn(move || next(&mut stuck));
    entered.recv().unwrap();

    script.done(&run_result(Recording::new())).unwrap();
    let notes = script.take_notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("thread 1 is still inside"),
        "{notes:?}"
    );
    assert!(script.take_notes().is_empty());

    drop(script);
    release.send(()).unwrap();
    assert!(worker.join().unwrap().starts_with("GET /path"));
}

#[test]
fn threads_are_numbered_across_all_machines_of_a_run() {
    const SCRIPT: &str = r#"
        numbers = {}
        function setup(thread)
          table.insert(numbers, thread.number)
          thread:set("expected", thread.number)
        end
        function init() assert(wrk.thread.number == expected) end
        function done() assert(table.concat(numbers, " ") == wrk.headers["X-Numbers"]) end
        "#;
    for (worker_base, numbers) in [(0, "1 2 3"), (8, "9 10 11")] {
        let test = ScriptTest {
            worker_base,
            ..ScriptTest::script(SCRIPT)
        };
        test.threads(3).header("X-Numbers", numbers).check();
    }
}
