package setting

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// read returns a form's value as a text, or its error's.
func read[T any](f func(string) (T, error)) func(given string) string {
	return func(given string) string {
		v, err := f(given)
		if err != nil {
			return "! " + err.Error()
		}
		return fmt.Sprint(v)
	}
}

func pointed[T any](f func(string) (*T, error)) func(given string) string {
	return read(func(given string) (any, error) {
		v, err := f(given)
		if v == nil {
			return "unset", err
		}
		return *v, err
	})
}

func TestForms(t *testing.T) {
	t.Parallel()
	o := New("x", "", "")
	for _, c := range []struct {
		read        func(string) string
		given, want string
	}{
		{read(o.Value), " a ", "a"},
		{read(New("x", "", "b").Value), "", "b"},
		{read(o.URL), "https://a.example/x", "https://a.example/x"},
		{read(o.URL), "a.example", "! purser: x: not an absolute http or https URL"},
		{pointed(o.Count), "", "unset"},
		{pointed(o.Count), "7", "7"},
		{pointed(o.Count), Off, "0"},
		{pointed(o.Count), "0", `! purser: x: "0" is neither a positive number nor off`},
		{read(o.Most), Off, "-1"},
		{read(o.Bounded), Off, "! purser: x: needs a bound"},
		{read(o.Positive), "3", "3"},
		{read(o.Positive), Off, `! purser: x: "off" is not a positive number`},
		{pointed(o.Yes), "on", "true"},
		{pointed(o.Yes), "maybe", `! purser: x: "maybe" is neither true nor false`},
		{read(o.Duration), "90s", "1m30s"},
		{read(o.Duration), "90", `! purser: x: "90" has no unit: write a text such as "90s"`},
		{read(o.Duration), "0s", `! purser: x: "0s" is not a duration such as 90s`},
		{read(o.Wait), "0", "0s"},
		{read(o.Wait), "-1s", `! purser: x: "-1s" is neither a duration such as 60s nor off`},
		{read(o.Retain), Off, "0s"},
		{read(o.Retain), "1s", "! purser: x: at least "},
		{read(o.Size), "1MiB", "1048576"},
		{read(o.Size), "much", `! purser: x: "much" is not a size such as 1MiB`},
		{read(o.SizeOrOff), Off, "-1"},
		{read(o.List), "a, b\tc", "[a b c]"},
		{read(o.Entries), "", "[]"},
		{read(o.Entries), ",", `! purser: x: "," names nothing`},
		{read(o.Some("animal", "cat", "dog")), "dog", "[dog]"},
		{read(o.Some("animal", "cat", "dog")), "cow", `! purser: x: unknown animal "cow"`},
		{read(o.Some("animal", "cat", "dog")), "", "! purser: x: no animal is named"},
		{read(o.Networks), "base,base", "! purser: x: base is named twice"},
		{read(o.Ports), "x", "! purser: x: "},
		{read(o.Resolver), "x y", "! purser: x: "},
		{read(o.Addresses), "0x1", `! purser: x: "0x1": `},
		{read(o.Settlement), "", "payer"},
		{read(o.Settlement), "nobody", `! purser: x: "nobody" is neither payer nor seller`},
	} {
		got := c.read(c.given)
		if strings.HasPrefix(c.want, "! ") { // an error says more, perhaps
			got = got[:min(len(got), len(c.want))]
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.given, got, c.want)
		}
	}
}

// A variable counts if the configuration is silent. Secrets are references or files, not both, and stay out of errors.
func TestVariablesAndSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("pk_of_a_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := New("x", "SETTING_TEST", "")
	t.Setenv("SETTING_TEST", "pk_of_the_environment")
	if v, err := o.Value(""); v != "pk_of_the_environment" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := o.APIKey("", file); err == nil || !strings.Contains(err.Error(), "SETTING_TEST_FILE is set as well: keep one") || strings.Contains(err.Error(), "pk_") {
		t.Error(err)
	}
	t.Setenv("SETTING_TEST", "")
	if v, err := o.APIKey("", file); v != "pk_of_a_file" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if err := o.IsReference("pk_itself"); err == nil || !strings.Contains(err.Error(), "write a reference like {env.SETTING_TEST}") || strings.Contains(err.Error(), "pk_") {
		t.Error(err)
	}
}
