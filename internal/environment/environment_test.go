package environment

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	t.Parallel()
	path := write(t, "\ufeff# a comment\r\nA=1\r\n\nexport B = two words  # a comment\nC=https://x.example/v2#part\n"+
		"D=\"in \\\"quotes\\\"\nand two lines\" # more\nE='a \\ b'\nF=\nG= # nothing\n")
	list, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []Variable{
		{"A", "1", path, 2},
		{"B", "two words", path, 4},
		{"C", "https://x.example/v2#part", path, 5},
		{"D", "in \"quotes\"\nand two lines", path, 6},
		{"E", `a \ b`, path, 8},
		{"F", "", path, 9},
		{"G", "", path, 10},
	}
	if !slices.Equal(list, want) {
		t.Errorf("%+v", list)
	}
	for text, want := range map[string]string{
		"A=1\nsecret\n":   "the line is not NAME=value, at ",
		"A B=secret":      "a name has letters, digits and _ only, at ",
		"\n\nA='secret\n": "the quote does not end, at ",
		"A='x' secret":    "there is something behind the quotes, at ",
		"A=secret\x00":    "is not a text",
	} {
		_, err := Read(write(t, text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// over returns a layer over a map.
func over(process map[string]string) *Layer {
	return &Layer{
		Lookup: func(name string) (string, bool) { v, set := process[name]; return v, set },
		Set:    func(name, value string) error { process[name] = value; return nil },
		Unset:  func(name string) error { delete(process, name); return nil },
	}
}

func TestLayerReplacesWhatItPutThere(t *testing.T) {
	t.Parallel()
	process := map[string]string{"REAL": "1", "BOTH": "same", "PURSER_EMPTY": ""}
	l := over(process)
	apply := func(text string) (Change, func()) {
		t.Helper()
		c, undo, err := l.Apply([]string{write(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		return c, undo
	}
	c, _ := apply("REAL=2\nBOTH=same\nPURSER_EMPTY=full\nNEW=a\nPURSER_NOTHING=\n")
	want := map[string]string{"REAL": "1", "BOTH": "same", "PURSER_EMPTY": "full", "NEW": "a"}
	if !maps.Equal(process, want) || !slices.Equal(c.Changed, []string{"NEW", "PURSER_EMPTY"}) || len(c.Warnings()) != 1 ||
		!strings.Contains(c.Warnings()[0], "REAL is not used from ") {
		t.Errorf("%v, %+v", process, c)
	}
	if !slices.Equal(l.Added(), []string{"NEW", "PURSER_EMPTY"}) || !strings.HasSuffix(l.Place("NEW"), FileName+":4") ||
		l.Place("REAL") != "the environment" || l.Place("PURSER_NOTHING") != "" {
		t.Errorf("%v, %s", l.Added(), l.Place("NEW"))
	}
	if c, _ := apply("BOTH=same\nPURSER_EMPTY=full\nNEW=a\n"); len(c.Changed)+len(c.Warnings()) != 0 {
		t.Errorf("the same once more: %+v", c)
	}

	// A variable that a service manager read from the same file is changed, too. It is not unset: the
	// manager may have another value for it.
	c, undo := apply("BOTH=other\nNEW=b\n")
	if process["BOTH"] != "other" || process["NEW"] != "b" || len(c.Changed) != 3 {
		t.Errorf("%v, %+v", process, c)
	}
	if _, set := process["PURSER_EMPTY"]; set {
		t.Error("a variable that is gone from the file is still set")
	}
	undo()
	if !maps.Equal(process, want) {
		t.Errorf("taken back: %v", process)
	}
	if c, _ := apply("NEW=b\n"); process["BOTH"] != "same" || len(c.Stuck) != 1 || !strings.Contains(c.Warnings()[0], "BOTH is gone from ") {
		t.Errorf("%v, %+v", process, c)
	}

	before := maps.Clone(process)
	for _, files := range [][]string{{write(t, "NEW=c"), write(t, "nonsense")}, {filepath.Join(t.TempDir(), "none")}} {
		if _, _, err := l.Apply(files); err == nil || !maps.Equal(process, before) {
			t.Errorf("%v, %v", err, process)
		}
	}
	if _, _, err := l.Apply([]string{write(t, "NEW=1\nNEW=2"), write(t, "NEW=3\nOTHER=3")}); err != nil || process["NEW"] != "2" || process["OTHER"] != "3" {
		t.Errorf("%v, %v", err, process)
	}
	if _, _, err := l.Apply(nil); err != nil || process["NEW"]+process["OTHER"] != "" || process["REAL"] != "1" {
		t.Errorf("%v, %v", err, process)
	}
}

func TestBeside(t *testing.T) {
	t.Parallel()
	path := write(t, "")
	if files, err := Beside(filepath.Join(filepath.Dir(path), "Caddyfile")); err != nil || !slices.Equal(files, []string{path}) {
		t.Errorf("%v, %v", files, err)
	}
	if files, err := Beside(filepath.Join(t.TempDir(), "Caddyfile")); err != nil || files != nil {
		t.Errorf("%v, %v", files, err)
	}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	l := over(map[string]string{})
	if _, _, err := l.Apply([]string{write(t, "GOGC=50\nPURSER_DAILY_BUGET=1\n")}); err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"PURSER_DAILY_BUGET=1", "PURSER_RPC=x", "PURSER_ENTIRELY_UNLIKE=x", "PURSER_MY_OWN=x", "PURSER_SERVICE_HOST=x",
		"PURSER_PORT_8402_TCP_ADDR=x", "PURSER_URL=x", "PURSER_KEY_FILE=x", "PURSER_RPC_URL_BASE_SEPOLIA_2_FILE=x", "HOME=x", "GOGC=50",
	}
	got := strings.Join(l.Unknown(environ, "# {env.PURSER_MY_OWN}"), "\n")
	for i, want := range []string{
		"PURSER_DAILY_BUGET at ", FileName + ":2 does nothing: purser has no such variable, but PURSER_DAILY_BUDGET\n",
		"PURSER_ENTIRELY_UNLIKE at  does nothing: purser has no such variable\n", "variable, but PURSER_RPC_URL\n", "GOGC at ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%d: %q is not in\n%s", i, want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 4 {
		t.Errorf("%d warnings:\n%s", n, got)
	}
}
