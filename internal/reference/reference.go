// Package reference decides whether a reference that an operator wrote in a configuration, such as
// {env.NAME} or {file./path}, leads to something. If it does not, the option must not count as left
// out: a limit that was meant to hold would not hold.
package reference

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Error reports a reference that leads to nothing.
type Error struct{ Reference, Problem string }

func (e *Error) Error() string {
	return e.Reference + " " + e.Problem + "; leave the option out if that may be"
}

const (
	variable = "env."
	file     = "file."
)

// Found returns the value that a reference leads to: *Error if that is nothing. name is the reference
// without its braces, and value what it stands for, nil if that is not known. A value of white space is
// nothing, and so is an empty file: it is what a failed mount and a secret that is half written leave.
func Found(name string, value any) (any, error) {
	if value != nil && strings.TrimSpace(fmt.Sprint(value)) != "" {
		return value, nil
	}
	e := &Error{Reference: "{" + name + "}", Problem: "is empty"}
	switch path, isFile := strings.CutPrefix(name, file); {
	case strings.HasPrefix(name, variable):
		e.Problem = "is empty or not set"
	case isFile && value == nil:
		e.Problem = "cannot be read"
		if err := readable(path); err != nil {
			e.Problem += ": " + err.Error()
		}
	case value == nil:
		e.Problem = "is nothing that is known when purser starts"
	}
	return nil, e
}

// Whole checks an option whose references were replaced: none may be without its end, and something
// must be left.
func Whole(written, value string) error {
	at := strings.LastIndex(written, "{")
	switch {
	case at >= 0 && !strings.Contains(written[at:], "}") && !strings.HasSuffix(written[:at], `\`):
		return &Error{Reference: written[at:], Problem: "is a reference without its closing brace"}
	case strings.TrimSpace(value) == "":
		return &Error{Reference: fmt.Sprintf("%q", written), Problem: "says nothing"}
	}
	return nil
}

func readable(path string) error {
	f, err := os.Open(path) //nolint:gosec // the operator's own file
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err = f.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// MaxSecret bounds the file of a secret, in bytes.
const MaxSecret = 64 << 10

// Secret returns the contents of a secret's file. Its errors never contain any of them.
func Secret(path string) (string, error) {
	f, err := os.Open(path) //nolint:gosec // the operator's own file
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, MaxSecret+1))
	v := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case len(text) > MaxSecret:
		return "", fmt.Errorf("%s is too large for a secret", path)
	case v == "":
		return "", fmt.Errorf("%s is empty", path)
	}
	return v, nil
}
