package ship

import (
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

var clean = flag.Bool("ship.clean", false, "build the release a second time with nothing in Go's build cache, which takes minutes")

// The same source gives the same bytes, in any folder and for any user.
func TestReproducible(t *testing.T) {
	first := releaseBinary(t)
	if os.Getenv("PURSER_RELEASE_BIN") != "" {
		t.Skip("PURSER_RELEASE_BIN names a binary that was built as another version")
	}
	elsewhere := filepath.Join(t.TempDir(), "another folder")
	process.Checkout(t, elsewhere, ":!e2e", ":!clients", ":!tools")
	second := filepath.Join(t.TempDir(), "purser")
	settings := append(identity(), "HOME="+t.TempDir(), "GOMODCACHE="+goEnv(t, "GOMODCACHE"), "GOCACHE="+goEnv(t, "GOCACHE"))
	if *clean {
		settings = append(settings, "GOCACHE="+t.TempDir())
	}
	run(t, buildTime, settings, filepath.Join(elsewhere, "deploy/release.sh"), second)
	if a, b := sum(t, first), sum(t, second); a != b {
		t.Errorf("two builds of the same source differ: %s and %s", a, b)
	}
}

// The release binary needs nothing of the system that it runs on, and tells nothing of the one it was built on.
func TestRelease(t *testing.T) {
	binary := releaseBinary(t)
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true" {
		t.Errorf("it was built with %v", settings)
	}
	text, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{process.Root(), goEnv(t, "GOMODCACHE"), goEnv(t, "GOROOT")} {
		if strings.Contains(string(text), place+"/") {
			t.Errorf("it names %s", place)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("it is linked dynamically")
	}
}

// All that is linked in is under licences that allow it, with their texts, and in the bill of materials.
func TestMaterials(t *testing.T) {
	binary := releaseBinary(t)
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()

	notices := filepath.Join(dir, "NOTICES")
	licences := tool(t, "github.com/purserpay/purser/tools/licences")
	list := run(t, runTime, nil, licences, "-root", process.Root(), "-notices", notices, binary)
	texts, err := os.ReadFile(notices)
	if err != nil {
		t.Fatal(err)
	}
	bill := filepath.Join(dir, "purser.cdx.json")
	run(t, runTime, []string{"VERSION=" + version}, "deploy/sbom.sh", binary, bill)
	var materials struct {
		BOMFormat string
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version, Purl string }
	}
	text, err := os.ReadFile(bill)
	if err == nil {
		err = json.Unmarshal(text, &materials)
	}
	if err != nil {
		t.Fatal(err)
	}
	if materials.BOMFormat != "CycloneDX" || materials.Metadata.Component.Version != version {
		t.Errorf("the bill of materials is one of %s, %+v", materials.BOMFormat, materials.Metadata.Component)
	}
	named := map[string]string{}
	for _, c := range materials.Components {
		named[c.Name] = c.Version
	}
	if len(info.Deps) < 50 || named["std"] == "" {
		t.Errorf("%d modules, library %q", len(info.Deps), named["std"])
	}
	for _, m := range info.Deps {
		if named[m.Path] != m.Version {
			t.Errorf("the bill of materials has %s %q, not %s", m.Path, named[m.Path], m.Version)
		}
		if !strings.Contains(list, "\n"+m.Path+" ") || !strings.Contains(string(texts), "\n"+m.Path+" "+m.Version+",") {
			t.Errorf("no licence of %s", m.Path)
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(run(t, runTime, nil, "go", "env", name))
}

func sum(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}
