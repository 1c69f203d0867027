package cli

import "time"

// testEnv is an environment with nothing in it.
func testEnv() *Env {
	return &Env{Getenv: func(string) string { return "" }, Environ: func() []string { return nil }, Now: time.Now}
}
