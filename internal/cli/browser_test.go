package cli

import (
	"strings"
	"testing"
)

// A browser is opened only where the person who asks sees it.
func TestBrowserProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		system, environ, want string
	}{
		{"linux", "DISPLAY=:0", "xdg-open"},
		{"freebsd", "WAYLAND_DISPLAY=wayland-0", "xdg-open"},
		{"linux", "", ""},
		{"linux", "DISPLAY=localhost:10.0 SSH_CONNECTION=1", ""}, // X11 over SSH
		{"linux", "DISPLAY=:0 SSH_TTY=/dev/pts/1", ""},
		{"darwin", "", "open"},
		{"darwin", "SSH_CLIENT=1", ""},
		{"windows", "", "rundll32 url.dll,FileProtocolHandler"},
		{"windows", "SSH_CONNECTION=1", ""},
	} {
		name, args := browserProgram(c.system, func(name string) string {
			_, rest, _ := strings.Cut(" "+c.environ, " "+name+"=")
			value, _, _ := strings.Cut(rest, " ")
			return value
		})
		if got := strings.TrimSpace(name + " " + strings.Join(args, " ")); got != c.want {
			t.Errorf("%s with %q: %q, want %q", c.system, c.environ, got, c.want)
		}
	}
}
