//go:build !windows

package attacks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A user's time limit ends the run with a message, even when the purser does not answer by then.
func TestTimeIsOverBeforeThePurserAnswers(t *testing.T) {
	t.Parallel()
	// The purser is a shell script, so this file is built only where shells exist.
	program := filepath.Join(t.TempDir(), "purser")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n: >\"$0.started\"\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancelCause(t.Context())
	limit := errors.New("over the time limit")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer end(limit)
		for range 600 {
			if _, err := os.Stat(program + ".started"); err == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	defer func() { <-ended }()
	_, err := Run(ctx, Options{Program: program, Config: []byte(realConfig), Environ: []string{"PATH=" + os.Getenv("PATH")}})
	if !errors.Is(err, limit) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("%v", err)
	}
}
