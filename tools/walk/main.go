// Command walk runs the tests of the build tag walk, with a call of internal/testing/walk's Enter in every function of purser.
// They print how many files, and how many calls, one purchase enters. Nothing is written but an overlay in a temporary
// folder (go help build, -overlay).
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// leftOut are folders whose functions stand for others' programs, or count themselves.
var leftOut = []string{"internal/testing/", "sandbox/", "e2e/", "tools/", "clients/", "pay/storetest/", "proxy/proxytest/"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	dir, err := os.MkdirTemp("", "walk")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := write(dir)
	if err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	test := exec.Command("go", append([]string{"test", "-overlay", overlay, "-tags", "walk", "-count=1", "-run", "^TestWalk", "-v"}, args...)...)
	test.Stdout, test.Stderr = os.Stdout, os.Stderr
	return test.Run()
}

// write copies every file with functions, with the calls in them, and returns the path of the overlay's file.
func write(dir string) (string, error) {
	list, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		return "", fmt.Errorf("git ls-files: %w", err)
	}
	replaced := map[string]string{}
	for i, name := range strings.Fields(string(list)) {
		if strings.HasSuffix(name, "_test.go") || isLeftOut(name) {
			continue
		}
		source, err := os.ReadFile(name)
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			return "", err
		}
		counting, changed, err := counted(name, source)
		if err != nil {
			return "", err
		}
		if !changed {
			continue
		}
		path, err := filepath.Abs(name)
		if err != nil {
			return "", err
		}
		replaced[path] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replaced[path], counting, 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

func isLeftOut(name string) bool {
	for _, folder := range leftOut {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return false
}

// counted puts the calls into a file. Lines keep their numbers.
func counted(name string, source []byte) (_ []byte, changed bool, _ error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, false, err
	}
	var out bytes.Buffer
	end := files.Position(parsed.Name.End()).Offset
	out.Write(source[:end])
	out.WriteString(`; import walk_ "github.com/purserpay/purser/internal/testing/walk"`)
	for _, d := range parsed.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Body == nil {
			continue
		}
		at := files.Position(f.Body.Lbrace).Offset + 1
		out.Write(source[end:at])
		fmt.Fprintf(&out, "walk_.Enter(%q);", name)
		end, changed = at, true
	}
	out.Write(source[end:])
	return out.Bytes(), changed, nil
}
