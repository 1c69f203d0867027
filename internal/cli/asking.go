package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/x402"
)

// Usages of --json.
const (
	printsJSON    = "print JSON"
	printsAmounts = "print JSON, with amounts in the smallest unit"
)

// asking is a command that asks a running purser. Its methods add flags that commands share. The
// fields hold what these say once the command runs.
type asking struct {
	*cobra.Command
	env    *Env
	client *adminClient
	ask    url.Values // of a list; --key is in it
	key    string
	json   jsonForm
	csv    bool
	days   daySpan
	most   int // rows of a list; 0: all
	checks []func() error
	dry    dryRun
	yes    *bool // answers the question; nil: there is none
}

// asks returns a command that has the flag for the admin endpoint.
func (env *Env) asks(c *cobra.Command) *asking {
	adminFlag(c)
	return &asking{Command: c, env: env, ask: url.Values{}}
}

func (a *asking) sub(use, short, long string, args cobra.PositionalArgs) *asking {
	c := &cobra.Command{Use: use, Short: short, Long: long, Args: args}
	a.AddCommand(c)
	return a.env.asks(c)
}

// list adds the command that lists what its parent lists.
func (a *asking) list(short string) *asking {
	return a.sub("list", short, a.Long, cobra.NoArgs)
}

// runs makes the command check its flags and run f.
func (a *asking) runs(f func(args []string) error) {
	Run(a.Command, func(c *cobra.Command, args []string) error {
		var err error
		a.client, err = a.env.adminOf(c)
		for _, check := range a.checks {
			err = errors.Join(err, check())
		}
		if err != nil {
			return err
		}
		a.client.dry = a.dry.on
		if a.dry.on && a.yes != nil {
			*a.yes = false // the question is told
		}
		err = f(args)
		if unsent, is := errors.AsType[*unsentError](err); is {
			return a.unsent(unsent)
		}
		return err
	})
}

func adminFlag(c *cobra.Command) {
	c.Flags().String("admin", "", "address of purser's admin endpoint "+adminDefault)
	// Caddy's own commands call it --address.
	c.Flags().Var(c.Flags().Lookup("admin").Value, "address", "the same")
	_ = c.Flags().MarkHidden("address")
}

func (env *Env) adminOf(c *cobra.Command) (*adminClient, error) {
	address, err := env.adminAddress(c, "")
	if err != nil {
		return nil, err
	}
	return env.newAdminClient(address)
}

func (a *asking) jsonFlag(usage string) { a.json.flag(a.Command, usage) }

// csvFlag is for a command with --json.
func (a *asking) csvFlag() {
	a.Flags().BoolVar(&a.csv, "csv", false, "print CSV, with amounts in USDC")
	a.checks = append(a.checks, func() error {
		if a.json.on && a.csv {
			return errors.New("--json or --csv, not both")
		}
		return nil
	})
}

func (a *asking) keyFlag(usage string) {
	a.Flags().StringVar(&a.key, "key", "", usage)
	complete := a.env.keyIDs()
	_ = a.RegisterFlagCompletionFunc("key",
		func(c *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return complete(c, nil, typed)
		})
	a.checks = append(a.checks, func() error {
		if a.key == "" {
			return nil
		}
		a.ask.Set("key", a.key)
		return checkID("--key", a.key)
	})
}

func (a *asking) networkFlag(usage string) *string {
	network := a.Flags().String("network", "", usage+" (default: the first one that is configured)")
	var names []string
	for _, n := range x402.Networks() {
		names = append(names, n.Name)
	}
	oneOf(a.Command, "network", names...)
	return network
}

// limitFlag adds the flag that bounds a list; unset 0 is a list of everything.
func (a *asking) limitFlag(unset int) {
	usage := "how many at most"
	if unset == 0 {
		usage += " (default: all)"
	}
	a.Flags().IntVar(&a.most, "limit", unset, usage)
	a.checks = append(a.checks, func() error {
		if a.most < 1 && a.Flags().Changed("limit") {
			return errors.New("--limit: a number above 0")
		}
		return nil
	})
}

// tell makes one request and prints its answer: as JSON if --json says so, else as print writes it.
func tell[T any](a *asking, method, path string, body any, print func(*table, T)) error {
	var answer T
	if err := a.client.call(a.Context(), method, path, body, &answer); err != nil {
		return err
	}
	return show(a.OutOrStdout(), a.json, answer, print)
}

// show prints a value: as JSON, or as print writes it.
func show[T any](w io.Writer, form jsonForm, v T, print func(*table, T)) error {
	if form.on {
		object, err := plainjson.Marshal(v)
		if err == nil {
			object, err = chosen[T](form, object)
		}
		var text bytes.Buffer
		if err == nil {
			err = json.Indent(&text, object, "", "  ")
		}
		if err != nil {
			return err
		}
		text.WriteByte('\n')
		_, err = w.Write(plainJSON(text.Bytes()))
		return err
	}
	t := newTable(w)
	print(t, v)
	return t.Flush()
}
