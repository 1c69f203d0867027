package main

import (
	"bytes"
	"os"
	"testing"
)

// The embedded document is the one that openapi.yaml makes.
func TestGenerated(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want, err := generate(source)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../openapi.json"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("openapi.json differs from what openapi.yaml makes (%v): run make openapi", err)
	}
}

// A broken source is an error that names the line.
func TestBrokenSource(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"a: 1\nb: {c: 2, c: 3}": "line 2: c is there twice", "a: &x 1\nb: *x": "line 2: aliases are not supported"} {
		if _, err := generate([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
