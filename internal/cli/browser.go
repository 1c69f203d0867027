package cli

import (
	"os/exec"
	"runtime"

	"golang.org/x/term"
)

// Open starts a program without input and output, which goes on when this process ends.
func Open(path string, args []string) error {
	c := exec.Command(path, args...) //nolint:gosec,noctx // browserProgram names the program, and no context ends it
	if err := c.Start(); err != nil {
		return err
	}
	return c.Process.Release()
}

// openBrowser shows a link in a browser of this machine, if a person who can see it asks from a terminal. It reports
// whether it did.
func (a *asking) openBrowser(link string) bool {
	out, is := a.OutOrStdout().(interface{ Fd() uintptr })
	if a.env.Open == nil || !is || !term.IsTerminal(int(out.Fd())) {
		return false
	}
	name, args := browserProgram(runtime.GOOS, a.env.Getenv)
	if name == "" {
		return false
	}
	path, err := a.env.lookPath(name)
	return err == nil && a.env.Open(path, append(args, link)) == nil
}

// browserProgram returns the program that shows a link on an operating system, with its first arguments. It returns
// "" where no person would see it: over SSH, and without a display.
func browserProgram(system string, getenv func(string) string) (name string, args []string) {
	for _, remote := range []string{"SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY"} {
		if getenv(remote) != "" {
			return "", nil
		}
	}
	switch {
	case system == "darwin":
		return "open", nil
	case system == "windows":
		return "rundll32", []string{"url.dll,FileProtocolHandler"}
	case getenv("DISPLAY")+getenv("WAYLAND_DISPLAY") != "":
		return "xdg-open", nil
	}
	return "", nil
}
