// Package openapi tests the description of purser's REST API with independent programs. A linter
// reads it. Schemathesis makes thousands of requests from it, right and wrong ones, and sends them
// to a running purser-sandbox. It uses two keys that must not see each other's objects, and no key.
// No answer may be a 500, missing in the description, or different from it.
//
// The tests of package payapi compare their own answers with the description.
//
// The tests need node_modules and .venv of this folder (make e2e-deps). PURSER_SANDBOX_BIN names a
// binary to use instead of building one. A run makes about two thousand calls in a minute or two,
// and the same ones every time. make api-fuzz makes a longer run with random calls:
//
//	go test ./e2e/openapi -v -run Properties -openapi.max 30m -openapi.seed random -timeout 0
//
// Every run prints its seed, and the command that repeats it.
package openapi
