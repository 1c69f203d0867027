package agentenv

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/atomicfile"
)

// Variables that name settings of programs that heed no variable for certificates.
const (
	wgetVariable = "SYSTEM_WGETRC"
	phpVariable  = "PHP_INI_SCAN_DIR"
)

// npmVariables are one setting of npm, which reads names in any case.
var npmVariables = []string{"NPM_CONFIG_CAFILE", "npm_config_cafile"}

// systemWgetrcs lists the files of which wget reads one before the user's. It reads no other file from there.
var systemWgetrcs = []string{"/etc/wgetrc", "/usr/local/etc/wgetrc", "/opt/homebrew/etc/wgetrc", "/opt/local/etc/wgetrc"}

// setWget has wget read the system's settings, and then the roots.
func (e *Environment) setWget(f files, o Options, old map[string]string, base []byte) error {
	places := o.SystemWgetrcs
	if places == nil {
		places = systemWgetrcs
	}
	if own := old[wgetVariable]; own != "" {
		places = []string{own}
	}
	var settings []byte
	mode := fs.FileMode(fileMode)
	for _, path := range places {
		if content, err := readBundle(path); err == nil {
			settings = bytes.TrimSpace(content)
			if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o004 == 0 {
				mode = privateFile // it may hold passwords
			}
			break
		}
	}
	for line := range strings.Lines(string(settings)) {
		name, path, _ := strings.Cut(line, "=")
		// Names have any case, and dashes for underscores. The last line counts.
		if strings.EqualFold(strings.ReplaceAll(strings.TrimSpace(name), "-", "_"), "ca_certificate") {
			if content, err := readCertificates(strings.TrimSpace(path)); err == nil {
				base = content
			}
		}
	}
	roots, err := f.write("roots", ".pem", addRoot(base, o.Root))
	if err != nil {
		return err
	}
	ours := "ca_certificate = " + roots
	if !bytes.HasSuffix(settings, []byte(ours)) {
		settings = append(append(settings, '\n'), ours...)
	}
	path, err := f.writeAs("wgetrc", "", append(bytes.TrimSpace(settings), '\n'), mode)
	if err == nil {
		e.set(wgetVariable, path)
	}
	return err
}

// setPHP has PHP read a folder of settings after its own ones.
func (e *Environment) setPHP(f files, roots, old string) error {
	if strings.ContainsAny(roots, "'\n"+string(os.PathListSeparator)) {
		e.warn("PHP will not trust purser's root: its settings cannot name the file " + roots)
		return nil
	}
	content := fmt.Appendf(nil, "; purser: roots of certificates\ncurl.cainfo = '%s'\nopenssl.cafile = '%s'\n", roots, roots)
	dir := f.path("php", "", content)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, "purser.ini"), content, fileMode); err != nil {
		return err
	}
	// An empty entry is PHP's own folder.
	dirs := strings.Split(old, string(os.PathListSeparator))
	if !slices.Contains(dirs, dir) {
		old += string(os.PathListSeparator) + dir
	}
	e.set(phpVariable, old)
	return nil
}

// setNPM adds the root to the file of roots that npm's settings name, which takes the place of Node's.
func (e *Environment) setNPM(f files, o Options, old map[string]string) error {
	for _, name := range npmVariables {
		path := old[name]
		if path == "" && name == npmVariables[0] && old[npmVariables[1]] == "" {
			path = npmCafile(o, old)
		}
		if path == "" {
			continue
		}
		content, err := readCertificates(path)
		if err != nil {
			e.warn(fmt.Sprintf("npm's cafile is left as it is, because it is not readable: %v", err))
			continue
		}
		if path, err = f.write("roots", ".pem", addRoot(content, o.Root)); err != nil {
			return err
		}
		e.set(name, path)
	}
	return nil
}

// readCertificates returns the certificates of a file that settings name, and nothing else of it: a
// project's settings may name any file of the user's, and all users can read what is written of it.
func readCertificates(path string) ([]byte, error) {
	content, err := readBundle(path)
	if err != nil {
		return nil, err
	}
	var found []byte
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			break
		}
		if block.Type == "CERTIFICATE" {
			found = append(found, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no certificates", path)
	}
	return found, nil
}

// npmCafile returns the cafile of npm's settings: the project's, else the user's; "" if there is none.
func npmCafile(o Options, old map[string]string) string {
	home, _ := os.UserHomeDir()
	places := o.NPMConfigs
	if places == nil {
		user := old["NPM_CONFIG_USERCONFIG"]
		if user == "" && home != "" {
			user = filepath.Join(home, ".npmrc")
		}
		places = []string{".npmrc", user}
	}
	for _, path := range places {
		content, err := readBundle(path)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			name, value, _ := strings.Cut(line, "=")
			if strings.TrimSpace(name) != "cafile" {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			value = os.Expand(value, func(name string) string { return old[name] })
			if rest, is := strings.CutPrefix(value, "~/"); is {
				value = filepath.Join(home, rest)
			}
			return value
		}
	}
	return ""
}
