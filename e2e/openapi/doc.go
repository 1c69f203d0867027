// Package openapi tests the description of purser's REST API with programs that nobody here
// wrote: a linter reads it, and Schemathesis calls a running purser-sandbox with thousands of
// requests that are made of it, right and wrong ones, with two keys that must not see each
// other's objects, and without any. No answer may be a 500, one that is not described, or one
// that differs from its description.
//
// What payapi itself answers in its own tests is held against the description there.
//
// The tests need node_modules and .venv of this folder (make e2e-deps). PURSER_SANDBOX_BIN names
// a binary to use instead of building one. A run makes some two thousand calls, in a minute or two,
// and the same ones every time. For a longer one with others, as make api-fuzz has it:
//
//	go test ./e2e/openapi -v -run Properties -openapi.max 30m -openapi.seed random -timeout 0
//
// Every run names its seed, and the command that repeats it.
package openapi
