// Package environment reads files of variables and lays them over the environment of a process. It
// knows purser's own variables, and follows the references of a configuration to variables and files.
package environment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// FileName is the name of the file that is read where it lies beside a configuration.
const FileName = "purser.env"

// maxFile bounds the size of a file, in bytes.
const maxFile = 1 << 20

// Variable is one line of a file.
type Variable struct {
	Name, Value string
	File        string // as it was named
	Line        int
}

// Place names the line for people.
func (v Variable) Place() string { return fmt.Sprintf("%s:%d", v.File, v.Line) }

var validName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Beside returns the file beside a configuration, or of the folder if there is none: purser.env, if
// it is there. Its path begins as the configuration's does.
func Beside(config string) ([]string, error) {
	path := FileName
	if config != "" && config != "-" {
		path = filepath.Join(filepath.Dir(config), FileName)
	}
	switch _, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return []string{path}, nil
}

// Read reads a file of lines NAME=value. Lines that begin with # are comments, and so is what
// follows a # behind a space. A value may be in quotes, and span lines then. The word export may
// come first. Errors do not repeat values.
func Read(path string) ([]Variable, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, fmt.Errorf("%s is not a text", path)
	}
	return parse(path, strings.TrimPrefix(string(text), "\ufeff"))
}

func parse(path, text string) (list []Variable, err error) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' {
			continue
		}
		v := Variable{File: path, Line: i + 1}
		name, value, found := strings.Cut(line, "=")
		if !found {
			return nil, fmt.Errorf("the line is not NAME=value, at %s", v.Place())
		}
		v.Name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if !validName.MatchString(v.Name) {
			return nil, fmt.Errorf("a name has letters, digits and _ only, at %s", v.Place())
		}
		value = strings.TrimSpace(value)
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			// A quoted value may go on in the next lines.
			for !closed(value) && i+1 < len(lines) {
				i++
				value += "\n" + strings.TrimSuffix(lines[i], "\r")
			}
			if v.Value, err = unquote(value); err != nil {
				return nil, fmt.Errorf("%w, at %s", err, v.Place())
			}
		} else {
			v.Value = withoutComment(value)
		}
		list = append(list, v)
	}
	return list, nil
}

// end returns the index of the quote that ends a quoted value, or -1. Only in double quotes a
// backslash may stand before one.
func end(value string) int {
	for i := 1; i < len(value); i++ {
		switch {
		case value[i] == '\\' && value[0] == '"':
			i++
		case value[i] == value[0]:
			return i
		}
	}
	return -1
}

func closed(value string) bool { return end(value) > 0 }

func unquote(value string) (string, error) {
	at := end(value)
	if at < 0 {
		return "", errors.New("the quote does not end")
	}
	if rest := strings.TrimSpace(value[at+1:]); rest != "" && rest[0] != '#' {
		return "", errors.New("there is something behind the quotes")
	}
	inner := value[1:at]
	if value[0] == '"' {
		inner = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(inner)
	}
	return inner, nil
}

func withoutComment(value string) string {
	for i := range len(value) {
		if value[i] == '#' && (i == 0 || value[i-1] == ' ' || value[i-1] == '\t') {
			return strings.TrimSpace(value[:i])
		}
	}
	return value
}
