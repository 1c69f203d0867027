// Command licences lists the licences of everything that is linked into Go programs, and fails if one of them is
// neither known nor allowed: licences [-root DIR] [-notices FILE] BINARY…
//
// The programs themselves list their modules. Their texts come from the module cache. If a module has several in its
// root, all of them count. -notices writes all texts to a file, which must accompany the programs.
//
// google/go-licenses is not used: it reads sources and not the program, which xcaddy may have built from others. It leaves
// out Go's library and NOTICE files, and takes one text of a module. For go-ethereum, that is the GPL of its commands and
// not the LGPL of its library.
package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/google/licensecheck"
	"golang.org/x/mod/module"
)

// allowed lists the licences that demand no more than that their text accompanies the program.
var allowed = []string{
	"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-2-Clause-Views", "BSD-3-Clause", "BlueOak-1.0.0", "CC0-1.0", "ISC", "MIT", "Unlicense",
	// Changes to its files stay open; there are none here.
	"MPL-2.0",
}

// exceptions lists the further licences of modules that were examined.
var exceptions = map[string][]string{
	// Only purser-sandbox links it, and the library alone. It is under the LGPL: a distributor must let users relink it,
	// which they can, because the source is open. The GPL is for its commands, and its text is a part of the LGPL.
	"github.com/ethereum/go-ethereum": {"LGPL-3.0", "GPL-3.0"},
	// The licence of a font for pictures of source code, which may accompany other works.
	"github.com/alecthomas/chroma/v2": {"OFL-1.1"},
}

// headed names a file of a module that has no text of its licence. The head of the file says that it is the MIT licence.
var headed = map[string]string{"github.com/holiman/bloomfilter/v2": "bloomfilter.go"}

const mit = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// enough is the percentage of a file that must be the text of licences. The rest names authors.
const enough = 60

// texts matches the names of files with licences, and with notices that must accompany the program.
var texts = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|notice|patents|unlicense)([-._].*)?$`)

// classified matches the names of those that must be recognized.
var classified = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|unlicense)`)

// part is a module of a program, with its texts by name.
type part struct {
	path, version string
	licences      []string
	texts         map[string][]byte
}

func main() {
	root := flag.String("root", ".", "checkout of the program's own module, and of those that are replaced by it")
	notices := flag.String("notices", "", "file to write all texts to")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "usage: licences [-root DIR] [-notices FILE] BINARY…")
		os.Exit(2)
	}
	if err := run(flag.Args(), *root, *notices); err != nil {
		fmt.Fprintf(os.Stderr, "licences: %v\n", err)
		os.Exit(1)
	}
}

func run(binaries []string, root, notices string) error {
	var parts []*part
	for _, binary := range binaries {
		list, err := linked(binary, root)
		if err != nil {
			return err
		}
		parts = append(parts, slices.DeleteFunc(list, func(p *part) bool {
			return slices.ContainsFunc(parts, func(one *part) bool { return one.path == p.path && one.version == p.version })
		})...)
	}
	var problems []error
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, p := range parts {
		problems = append(problems, p.classify())
		fmt.Fprintf(t, "%s\t%s\t%s\n", p.path, p.version, strings.Join(p.licences, " "))
	}
	if err := errors.Join(append(problems, t.Flush())...); err != nil || notices == "" {
		return err
	}
	return os.WriteFile(notices, all(parts), 0o644) //nolint:gosec // it is public
}

// linked returns the modules of a program, and Go's library.
func linked(binary, root string) ([]*part, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	out, err := exec.CommandContext(context.Background(), "go", "env", "GOMODCACHE", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	cache, goRoot, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	std := &part{path: "std", version: info.GoVersion}
	// A toolchain may not say its root.
	if std.texts, err = read(cmp.Or(goRoot, runtime.GOROOT())); err != nil { //nolint:staticcheck // that is for these
		return nil, err
	}
	parts := []*part{std}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		used := cmp.Or(m.Replace, m)
		dir := root
		switch {
		case m == &info.Main && m.Path != "github.com/purserpay/purser":
			continue // made up by xcaddy
		case m != &info.Main && m.Path != "github.com/purserpay/purser":
			if dir, err = inCache(cache, used); err != nil {
				return nil, fmt.Errorf("%s: %w", m.Path, err)
			}
		}
		p := &part{path: m.Path, version: used.Version}
		if p.texts, err = read(dir); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Path, err)
		}
		if file := headed[m.Path]; file != "" {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.Path, err)
			}
			head, _, _ := bytes.Cut(text, []byte("\npackage "))
			p.texts["LICENSE"] = slices.Concat(head, []byte("\n\n"), []byte(mit))
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// inCache returns the folder of a module in the module cache.
func inCache(cache string, m *debug.Module) (string, error) {
	path, err1 := module.EscapePath(m.Path)
	version, err2 := module.EscapeVersion(m.Version)
	dir := filepath.Join(cache, filepath.FromSlash(path)+"@"+version)
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("%w; run go mod download", err)
	}
	return dir, nil
}

// read returns the texts in a folder.
func read(dir string) (map[string][]byte, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	found := map[string][]byte{}
	for _, e := range entries {
		if !e.Type().IsRegular() || !texts.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		if found[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// classify recognizes a part's licences. It fails if one of them is unknown or not allowed.
func (p *part) classify() error {
	known := map[string]bool{}
	for name, text := range p.texts {
		if !classified.MatchString(name) {
			continue
		}
		covered := licensecheck.Scan(text)
		if covered.Percent < enough {
			return fmt.Errorf("%s %s: %s is no licence that is known", p.path, p.version, name)
		}
		for _, m := range covered.Match {
			known[m.ID] = true
		}
	}
	if p.licences = slices.Sorted(maps.Keys(known)); len(p.licences) == 0 {
		return fmt.Errorf("%s %s: no licence is there", p.path, p.version)
	}
	for _, id := range p.licences {
		if !slices.Contains(allowed, id) && !slices.Contains(exceptions[p.path], id) {
			return fmt.Errorf("%s %s: %s is not among the licences that are allowed", p.path, p.version, id)
		}
	}
	return nil
}

// all joins the texts of all parts.
func all(parts []*part) []byte {
	var b bytes.Buffer
	b.WriteString("What is linked into purser, and the licences that it is under.\n")
	for _, p := range parts {
		for _, name := range slices.Sorted(maps.Keys(p.texts)) {
			fmt.Fprintf(&b, "\n%s\n%s %s, %s\n\n%s\n", strings.Repeat("=", 72), p.path, p.version, name, bytes.TrimSpace(p.texts[name]))
		}
	}
	return b.Bytes()
}
