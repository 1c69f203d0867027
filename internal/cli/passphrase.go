package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	maxPassphraseFile = 4 << 10
	minPassphrase     = 8 // characters of one that encrypts
)

// passphraseFlag adds the flag that names a file. A passphrase is never an argument: other programs and
// the shell's history see those.
func passphraseFlag(c *cobra.Command) *string {
	return c.Flags().String("passphrase-file", "", "file with the passphrase in it (default: it is asked for on the terminal)")
}

// passphrase reads a passphrase from a file or the terminal. A new one is asked for twice, and has a
// smallest length.
func (env *Env) passphrase(c *cobra.Command, file string, isNew bool) (text string, err error) {
	if file != "" {
		text, err = env.passphraseIn(file)
	} else {
		text, err = askPassphrase(c, isNew)
	}
	switch {
	case err != nil:
		return "", err
	case text == "":
		return "", errors.New("the passphrase is empty")
	case isNew && len([]rune(text)) < minPassphrase:
		return "", fmt.Errorf("the passphrase is too short: it alone protects the key, so give it %d characters or more", minPassphrase)
	}
	return text, nil
}

// passphraseIn reads the first line of a file.
func (env *Env) passphraseIn(file string) (string, error) {
	f, err := os.Open(env.path(file))
	if err != nil {
		return "", fmt.Errorf("--passphrase-file: %w", err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxPassphraseFile+1))
	if err != nil {
		return "", fmt.Errorf("--passphrase-file: %w", err)
	}
	line, _, more := strings.Cut(strings.TrimRight(string(text), "\r\n"), "\n")
	if more || len(text) > maxPassphraseFile {
		return "", errors.New("--passphrase-file: it has more than one line, or is too large")
	}
	return line, nil
}

func askPassphrase(c *cobra.Command, twice bool) (string, error) {
	in, is := c.InOrStdin().(*os.File)
	if !is || !term.IsTerminal(int(in.Fd())) {
		return "", errors.New("there is no terminal to ask for the passphrase: --passphrase-file names a file with it")
	}
	ask := func(question string) (string, error) {
		_, _ = fmt.Fprint(c.ErrOrStderr(), question)
		text, err := term.ReadPassword(int(in.Fd()))
		_, _ = fmt.Fprintln(c.ErrOrStderr())
		if err != nil {
			return "", fmt.Errorf("reading the passphrase: %w", err)
		}
		return string(text), nil
	}
	text, err := ask("Passphrase of the keystore: ")
	if err != nil || !twice {
		return text, err
	}
	again, err := ask("The same again: ")
	if err == nil && again != text {
		err = errors.New("the two passphrases differ")
	}
	return text, err
}
