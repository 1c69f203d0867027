package dashboard_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "record that the pictures of the documents show the pages of now; make pictures does it")

// pagesOfPictures records the files that the pictures were made from, as sha256sum does.
const pagesOfPictures = "../docs/images/pages.sha256"

// README and docs show the pages of today: since the pictures were taken, no template, style or script has changed.
func TestPicturesAreOfThesePages(t *testing.T) {
	t.Parallel()
	var now strings.Builder
	for _, folder := range []string{"templates", "assets"} {
		err := fs.WalkDir(os.DirFS("."), folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil {
				fmt.Fprintf(&now, "%x  %s\n", sha256.Sum256(text), path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if *update {
		if err := os.WriteFile(pagesOfPictures, []byte(now.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(pagesOfPictures)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(string(before), "\n"), strings.Split(now.String(), "\n")
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("%s is newer than the pictures of README and docs: run make pictures", line[min(len(line), 66):])
		}
	}
	if len(was) != len(is) && !t.Failed() {
		t.Error("a file of the pages is gone since the pictures of README and docs were taken: run make pictures")
	}
}

// Each picture of a page is there in light and in dark, is small, and is shown somewhere.
func TestPicturesOfDocuments(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`<picture>\s*<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)-dark\.webp">\s*<img alt="[^"]{10,}" src="([^"]+)-light\.webp"`)
	for _, path := range append(documents, "../README.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found := source.FindAllStringSubmatch(string(text), -1)
		if n := strings.Count(string(text), "images/"); n != 2*len(found) {
			t.Errorf("%s: %d names of pictures, and %d pictures in light and dark", path, n, len(found))
		}
		for _, m := range found {
			if m[1] != m[2] {
				t.Errorf("%s: %s in light is %s in dark", path, m[2], m[1])
			}
			for _, look := range []string{"-light.webp", "-dark.webp"} {
				file := filepath.Join(filepath.Dir(path), m[1]+look)
				shown[filepath.Clean(file)] = true
			}
		}
	}
	files, err := filepath.Glob("../docs/images/*.webp")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || info.Size() > 150_000 {
			t.Errorf("%s: %d bytes, %v", file, info.Size(), err)
		}
		if !shown[filepath.Clean(file)] {
			t.Errorf("no document shows %s", file)
		}
		delete(shown, filepath.Clean(file))
	}
	for file := range shown {
		t.Errorf("%s is not there", file)
	}
}
