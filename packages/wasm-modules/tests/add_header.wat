;; A filter of Envoy (proxy-wasm 0.2.1) that adds `x-wasm: from a local file` to each response.
;; ADD_HEADER in wasm_modules.testing is what wasmtime.wat2wasm (PyPI: wasmtime) makes of it.
(module
  (import "env" "proxy_add_header_map_value"
    (func $add_header (param i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "x-wasm")
  (data (i32.const 32) "from a local file")
  (func (export "proxy_abi_version_0_2_1"))
  ;; What the host wants to put here is read by nothing: one place does for all of it.
  (func (export "proxy_on_memory_allocate") (param i32) (result i32) (i32.const 1024))
  (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (i32.const 1))
  (func (export "proxy_on_configure") (param i32 i32) (result i32) (i32.const 1))
  (func (export "proxy_on_context_create") (param i32 i32))
  (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32)
    ;; 2: the headers of the response
    (drop (call $add_header
      (i32.const 2) (i32.const 16) (i32.const 6) (i32.const 32) (i32.const 17)))
    (i32.const 0)))
