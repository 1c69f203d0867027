package environment

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Withheld reports whether programs of agents must not inherit a variable, whatever the configuration
// says: purser and its stores, signers, facilitators and exporters read it.
func Withheld(name string) bool {
	name = strings.TrimSuffix(name, "_FILE")
	return name == "DATABASE_URL" || slices.ContainsFunc(withheld, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// withheld holds prefixes. PG is the prefix of what PostgreSQL's drivers read beside DATABASE_URL, and
// the headers of an exporter of spans carry its key.
var withheld = []string{own, "CDP_", "PG", "OTEL_EXPORTER_", "CADDY_", "CREDENTIALS_DIRECTORY"}

// Common reports whether every program has a variable, so that a reference to it in a configuration
// does not make it purser's.
func Common(name string) bool {
	return slices.Contains(common, strings.ToUpper(name)) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_")
}

var common = []string{
	"APPDATA", "COLORTERM", "COMPUTERNAME", "COMSPEC", "DISPLAY", "HOME", "HOMEDRIVE", "HOMEPATH", "HOSTNAME", "LANG", "LANGUAGE", "LOCALAPPDATA", "LOGNAME",
	"OLDPWD", "PATH", "PATHEXT", "PWD", "SHELL", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER", "USERNAME", "USERPROFILE", "WINDIR",
}

// references matches what a configuration reads of the environment: {env.NAME} when purser runs,
// {$NAME} and {$NAME:default} when the file is read.
var references = regexp.MustCompile(`\{(?:env\.([^{}\s"]+)\}|\$([^{}:\s"]+))`)

// ReferencesIn returns the names of the variables that the text of a configuration refers to, sorted.
func ReferencesIn(text string) []string {
	names := map[string]bool{}
	for _, found := range references.FindAllStringSubmatch(text, -1) {
		names[found[1]+found[2]] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// maxImports bounds the files that Files names.
const maxImports = 256

// Files returns a file of a configuration and the files that it imports, each once. It leaves out those
// that are not there.
func Files(config string) (files []string) {
	for queue := []string{config}; len(queue) > 0 && len(files) < maxImports; queue = queue[1:] {
		path := filepath.Clean(queue[0])
		text, err := os.ReadFile(path) //nolint:gosec // the operator's own configuration
		if err != nil || slices.Contains(files, path) {
			continue
		}
		files = append(files, path)
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) < 2 || words[0] != "import" {
				continue
			}
			pattern := strings.Trim(words[1], "\"`")
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(path), pattern)
			}
			found, _ := filepath.Glob(pattern) // a snippet's name matches no file
			queue = append(queue, found...)
		}
	}
	return files
}

// References returns the names of the variables that a file of a configuration and the files that it
// imports refer to, sorted.
func References(config string) (names []string) {
	for _, path := range Files(config) {
		if text, err := os.ReadFile(path); err == nil { //nolint:gosec // the operator's own configuration
			names = append(names, ReferencesIn(string(text))...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
