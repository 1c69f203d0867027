package agentenv

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wget reads one file of the system's settings, so ours has what that one has.
func TestWget(t *testing.T) {
	t.Parallel()
	ours, system, theirs := root(t, "ours"), root(t, "system"), root(t, "theirs")
	for name, c := range map[string]struct {
		settings string
		set      bool // SYSTEM_WGETRC names them
		base     []byte
	}{
		"none":             {"", false, system},
		"the system's":     {"# quiet\ntimeout = 60\n", false, system},
		"of the variable":  {"timeout = 60\n", true, system},
		"with roots":       {"timeout = 60\nCA-Certificate=" + file(t, theirs) + "\n", false, theirs},
		"with lost roots":  {"ca_certificate = /nowhere\n", false, system},
		"without line end": {"timeout = 60", false, system},
	} {
		o := options(t, system)
		o.Root = ours
		if c.settings != "" {
			if path := file(t, []byte(c.settings)); c.set {
				o.Environ = []string{wgetVariable + "=" + path}
			} else {
				o.SystemWgetrcs = []string{"/nowhere", path}
			}
		}
		got, warnings := made(t, o)
		text := string(content(t, got[wgetVariable]))
		rest, roots, found := strings.Cut(text, "ca_certificate = ")
		if last := strings.LastIndex(text, "ca_certificate = "); found {
			rest, roots = text[:last], text[last+len("ca_certificate = "):]
		}
		if !found || strings.TrimSpace(rest) != strings.TrimSpace(c.settings) || len(warnings) > 0 {
			t.Errorf("%s: %q, %q", name, text, warnings)
		}
		if bundle := content(t, strings.TrimSpace(roots)); !bytes.Contains(bundle, c.base) || !bytes.Contains(bundle, ours) {
			t.Errorf("%s: trusts %s", name, bundle)
		}
	}
}

// PHP reads its own settings first: an empty entry stands for them.
func TestPHP(t *testing.T) {
	t.Parallel()
	for old, want := range map[string]string{"": ":", "/theirs": "/theirs:", ":/theirs": ":/theirs:"} {
		o := options(t, root(t, "system"), phpVariable+"="+old)
		o.Root = root(t, "ours")
		got, _ := made(t, o)
		dir, is := strings.CutPrefix(got[phpVariable], want)
		if text := string(content(t, filepath.Join(dir, "purser.ini"))); !is || !strings.Contains(text, "curl.cainfo = '"+got["SSL_CERT_FILE"]+"'") {
			t.Errorf("%q becomes %q: %s", old, got[phpVariable], text)
		}
	}
	o := options(t, nil)
	o.Root, o.Dir = root(t, "ours"), filepath.Join(o.Dir, "it's")
	if got, warnings := made(t, o); got[phpVariable] != "" || len(warnings) != 2 {
		t.Errorf("%q, %q", got[phpVariable], warnings)
	}
}

// npm is told roots only where it is told some by its settings: they take the place of Node's.
func TestNPM(t *testing.T) {
	t.Parallel()
	ours, theirs := root(t, "ours"), root(t, "theirs")
	path := file(t, theirs)
	for name, c := range map[string]struct {
		environ  []string
		settings string
		want     []string // variables
	}{
		"none":            {nil, "registry=https://r.example\n", nil},
		"settings":        {nil, "# cafile=/nowhere\ncafile = \"" + path + "\"\n", []string{"NPM_CONFIG_CAFILE"}},
		"expanded":        {[]string{"CORP=" + filepath.Dir(path)}, "cafile=${CORP}/roots.pem\n", []string{"NPM_CONFIG_CAFILE"}},
		"variable":        {[]string{"NPM_CONFIG_CAFILE=" + path}, "cafile=/nowhere\n", []string{"NPM_CONFIG_CAFILE"}},
		"inside a script": {[]string{"npm_config_cafile=" + path}, "cafile=/nowhere\n", []string{"npm_config_cafile"}},
	} {
		o := options(t, root(t, "system"), c.environ...)
		o.Root, o.NPMConfigs = ours, []string{"/nowhere", file(t, []byte(c.settings))}
		got, warnings := made(t, o)
		for _, variable := range npmVariables {
			set := len(c.want) > 0 && variable == c.want[0]
			if (got[variable] != "") != set || len(warnings) > 0 {
				t.Errorf("%s: %s=%q, %q", name, variable, got[variable], warnings)
			} else if set {
				if bundle := content(t, got[variable]); !bytes.Contains(bundle, ours) || !bytes.Contains(bundle, theirs) {
					t.Errorf("%s: trusts %s", name, bundle)
				}
			}
		}
	}
	o := options(t, nil, "NPM_CONFIG_CAFILE=/nowhere.pem")
	o.Root = ours
	if got, warnings := made(t, o); got["NPM_CONFIG_CAFILE"] != "" || len(warnings) != 2 || !strings.Contains(warnings[1], "cafile") {
		t.Errorf("%q, %q", got["NPM_CONFIG_CAFILE"], warnings)
	}
	if !bytes.Equal(content(t, path), theirs) {
		t.Error("the program's own file was changed")
	}
}

// A project's settings may name any file of the user's, and wget's may have passwords: nothing of that
// gets into a file that other users can read.
func TestSettingsKeepSecrets(t *testing.T) {
	t.Parallel()
	theirs := root(t, "theirs")
	const secret = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
	for name, both := range map[string]string{"a key": secret, "with certificates": secret + string(theirs)} {
		path := file(t, []byte(both))
		o := options(t, root(t, "system"), wgetVariable+"="+file(t, []byte("http_password = secret\nca_certificate = "+path+"\n")))
		o.Root, o.NPMConfigs = root(t, "ours"), []string{file(t, []byte("cafile="+path+"\n"))}
		got, warnings := made(t, o)
		if whole := name != "a key"; (got["NPM_CONFIG_CAFILE"] != "") != whole || (len(warnings) == 0) != whole {
			t.Errorf("%s: %q, %q", name, got["NPM_CONFIG_CAFILE"], warnings)
		}
		for _, entry := range list(t, o.Dir) {
			info, err := os.Stat(filepath.Join(o.Dir, entry))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0 && bytes.Contains(content(t, filepath.Join(o.Dir, entry)), []byte("c2VjcmV0")) {
				t.Errorf("%s: all users can read the key in %s", name, entry)
			}
		}
		if info, err := os.Stat(got[wgetVariable]); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: wget's settings: %v, %v", name, info.Mode(), err)
		}
	}
}

func list(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
