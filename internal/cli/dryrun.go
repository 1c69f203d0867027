package cli

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purserpay/purser/boltstore"
)

// target stands in the words of a command for the key, wallet, payment or other thing that it changes.
const target = "{}"

// dryRun is the flag --dry-run of a command that changes something.
type dryRun struct {
	on       bool
	would    string // in words, after "would"; may have target in it
	question string // that the command asks first
}

// flag adds the flag to a command.
func (d *dryRun) flag(c *cobra.Command) {
	c.Flags().BoolVar(&d.on, "dry-run", false, "say what the command would do, and change nothing")
}

// dryRunFlag adds the flag to a command that works on files, and does nothing where it is set.
func dryRunFlag(c *cobra.Command) *dryRun {
	d := new(dryRun)
	d.flag(c)
	return d
}

// changes marks a command that changes something, and says what it does. The command then has --dry-run, with which
// its client sends no change.
func (a *asking) changes(would string) {
	a.dry.would = would
	a.dry.flag(a.Command)
}

// unsentError reports a change that a dry run did not send.
type unsentError struct{ path string }

func (e *unsentError) Error() string { return "a dry run does not send " + e.path }

// reads reports whether a request changes nothing.
func reads(method, path string) bool {
	return method == http.MethodGet || method == http.MethodPost && strings.HasSuffix(path, "/plan")
}

// unsent says what the command would have changed. It fails as the command would if there is no such key, wallet,
// payment or approval.
func (a *asking) unsent(change *unsentError) error {
	name, err := a.named(change.path)
	if err != nil {
		return err
	}
	a.dry.would = strings.ReplaceAll(a.dry.would, target, name)
	return a.dry.tell(a.Command, a.json)
}

// named returns the name for people of what a path is about.
func (a *asking) named(path string) (string, error) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(path, "/purser/"), "/")
	id, _, _ := strings.Cut(rest, "/")
	if kind == "wallets" && id == "import" {
		kind, id = "keys", url.PathEscape(a.key)
	}
	name, err := url.PathUnescape(id)
	if err != nil || id == "" || !slices.Contains([]string{"keys", "wallets", "payments", "approvals"}, kind) {
		return name, err
	}
	var found struct{ ID, Label, Address string }
	if err := a.client.call(a.Context(), http.MethodGet, "/purser/"+kind+"/"+id, nil, &found); err != nil {
		return "", err
	}
	if more := cmp.Or(found.Label, found.Address); more != "" {
		return found.ID + " (" + more + ")", nil
	}
	return cmp.Or(found.ID, name), nil
}

// unsaid are the flags that say nothing about a change, or may hold a secret.
var unsaid = []string{"admin", "address", "config", "dry-run", "envfile", "facilitator", "rpc", "yes"}

// rehearsal holds the output of a dry run.
type rehearsal struct {
	DryRun   bool     `json:"dry_run"`
	Would    string   `json:"would"`
	With     []string `json:"with,omitempty"`     // flags
	Question string   `json:"question,omitempty"` // that the command asks first, without --yes
}

// tell prints what the command would do.
func (d *dryRun) tell(c *cobra.Command, form jsonForm) error {
	told := rehearsal{DryRun: true, Would: d.would, Question: d.question}
	c.Flags().Visit(func(f *pflag.Flag) {
		if _, is := f.Value.(*jsonForm); !is && !slices.Contains(unsaid, f.Name) {
			told.With = append(told.With, fmt.Sprintf("--%s=%s", f.Name, f.Value))
		}
	})
	return show(c.OutOrStdout(), jsonForm{on: form.on}, told, func(t *table, told rehearsal) {
		t.row("dry run", "nothing was changed")
		t.row("would", told.Would)
		t.some("with", strings.Join(told.With, " "))
		t.some("asks", told.Question)
	})
}

// tellFile prints what the command would do to the database of a stopped purser. It fails if there is none, or a purser
// has it open.
func (d *dryRun) tellFile(c *cobra.Command, path string) error {
	_, err := os.Stat(path)
	used := false
	if err == nil {
		used, err = boltstore.InUse(path)
	}
	if err == nil && used {
		err = fmt.Errorf("%s: %w", path, boltstore.ErrLocked)
	}
	if err != nil {
		return err
	}
	return d.tell(c, jsonForm{})
}
