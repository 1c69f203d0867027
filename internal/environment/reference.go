package environment

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// ReferenceError reports a reference of a configuration, such as {env.NAME} or {file./path}, that leads
// to nothing. The option must not count as left out: a limit that was meant to hold would not hold.
type ReferenceError struct{ Reference, Problem string }

func (e *ReferenceError) Error() string {
	return e.Reference + " " + e.Problem + "; leave the option out if that may be"
}

const (
	variable = "env."
	file     = "file."
)

// Referenced returns the value that a reference leads to: *ReferenceError if that is nothing. name is
// the reference without its braces, and value what it stands for, nil if that is not known. A value of
// white space is nothing, and so is an empty file: it is what a failed mount and a secret that is half
// written leave.
func Referenced(name string, value any) (any, error) {
	if value != nil && strings.TrimSpace(fmt.Sprint(value)) != "" {
		return value, nil
	}
	e := &ReferenceError{Reference: "{" + name + "}", Problem: "is empty"}
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

// CheckReferences checks an option whose references were replaced: none may be without its end, and
// something must be left.
func CheckReferences(written, value string) error {
	at := strings.LastIndex(written, "{")
	switch {
	case at >= 0 && !strings.Contains(written[at:], "}") && !strings.HasSuffix(written[:at], `\`):
		return &ReferenceError{Reference: written[at:], Problem: "is a reference without its closing brace"}
	case strings.TrimSpace(value) == "":
		return &ReferenceError{Reference: fmt.Sprintf("%q", written), Problem: "says nothing"}
	}
	return nil
}

// placeholder is a value that is nothing but one reference.
var placeholder = regexp.MustCompile(`^\{[^{}]+\}$`)

// Placeholder reports whether an option is nothing but one reference.
func Placeholder(written string) bool { return placeholder.MatchString(written) }

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

// ReadSecret returns the contents of a secret's file. Its errors never contain any of them.
func ReadSecret(path string) (string, error) {
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
