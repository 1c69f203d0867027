package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Texts have purser's commands as the program purser has them: "purser keys". In a Caddy of one's own people type
// "caddy purser keys", and so says all that the command line prints for people there. Answers for programs stay as they are.

// guestOut is the standard output of a command in a Caddy of one's own.
type guestOut struct {
	*os.File
	written *regexp.Regexp // a command in a text, also at the end of a line that goes on with it
}

// caddys are the commands of the server, which are Caddy's own.
const caddys = "reload|run|start|stop|validate"

// newGuestOut returns the standard output for the commands below c.
func newGuestOut(c *cobra.Command) guestOut {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return guestOut{os.Stdout, regexp.MustCompile(`(?:caddy )?\bpurser(\s+)(?:(` + caddys + `)|(` + strings.Join(names, "|") + `))\b`)}
}

// ownVariables matches advice that only the program purser can follow, which reads files of variables by itself.
var ownVariables = regexp.MustCompile(`in purser\.env, then purser reload\b`)

// in writes the commands in a text as people type them.
func (o guestOut) in(text string) string {
	text = ownVariables.ReplaceAllString(text, "in the environment of Caddy, and restart it")
	return o.written.ReplaceAllStringFunc(text, func(command string) string {
		m := o.written.FindStringSubmatch(command)
		if m[2] != "" {
			return "caddy" + m[1] + m[2]
		}
		return "caddy purser" + m[1] + m[3]
	})
}

// retype writes the commands in the help of a command, and of those below it, as people type them.
func (o guestOut) retype(c *cobra.Command) {
	c.Short, c.Long, c.Example = o.in(c.Short), o.in(c.Long), o.in(c.Example)
	usage := func(f *pflag.Flag) {
		f.Usage = strings.Replace(o.in(f.Usage), adminDefault, "(default: the one of Caddy's configuration)", 1)
	}
	c.Flags().VisitAll(usage) // LocalFlags would give each command its own copy of all that it inherits
	c.PersistentFlags().VisitAll(usage)
	for _, sub := range c.Commands() {
		o.retype(sub)
	}
}

// typed writes the commands in a text for people as they type them. out is the standard output of the command.
func typed(out io.Writer, text string) string {
	if guest, is := out.(guestOut); is {
		return guest.in(text)
	}
	return text
}

// speak prints a text for people on the standard output of a command.
func speak(c *cobra.Command, format string, args ...any) error {
	_, err := io.WriteString(c.OutOrStdout(), typed(c.OutOrStdout(), fmt.Sprintf(format, args...)))
	return err
}
