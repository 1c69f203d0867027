package cli

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const keysReissueHelp = `
Gives a key a new secret and prints it, once. Wallets, limits, history and organization stay. The
old secret stops at once, for ever: programs that have it can neither pay nor read. With --overlap
it works for a while longer, at every door, so that programs can be changed one by one; do not use
it for a key that has leaked. At most two secrets work: another reissue ends the overlap of the one
before. There is one question, which --yes answers.

For the exec key nothing else is to be done, because 'purser exec' asks purser. If a setting such
as PURSER_KEY names the key, change it there too: the command says so.

    $ purser keys reissue research
    $ purser keys reissue research --overlap 24h
    $ purser keys reissue 0199… --yes --json`

func reissueKeyCommand(keys *asking) {
	a := keys.sub("reissue KEY", "Gives a key a new secret", keysReissueHelp, cobra.ExactArgs(1))
	overlap := a.Flags().String("overlap", "", "how long the old secret works beside the new one, such as 90m, 24h or 7d; up to 30d (default: it stops at once)")
	yes := a.yesFlag()
	a.changes("give the key {} a new secret")
	a.jsonFlag(printsJSON)
	a.ValidArgsFunction = a.env.keyIDs()
	a.runs(func(args []string) error {
		var goesOn time.Duration
		if *overlap != "" {
			var err error
			if goesOn, err = readSpan("overlap", *overlap); err != nil {
				return err
			}
		}
		k, err := a.keyNamed(args[0])
		if err != nil {
			return err
		}
		if !*yes {
			if err := a.confirm(reissueQuestion(k, *overlap), "the key has its secret still"); err != nil {
				return err
			}
		}
		// The id is the one that was confirmed.
		return tell(a, http.MethodPost, keyPath(k.ID)+"/reissue", adminapi.NewSecret{OverlapSeconds: int64(goesOn / time.Second)}, writeReissuedKey)
	})
}

// keyNamed finds the key that an argument names.
func (a *asking) keyNamed(name string) (k adminapi.Key, err error) {
	if err := checkID("KEY", name); err != nil {
		return k, err
	}
	return k, a.client.call(a.Context(), http.MethodGet, keyPath(name), nil, &k)
}

func reissueQuestion(k adminapi.Key, overlap string) string {
	question := fmt.Sprintf("Give %s (%s) a new secret? ", k.ID, orDash(k.Label))
	if overlap == "" {
		question += "Programs that have the old one can neither pay nor read from now on."
	} else {
		question += fmt.Sprintf("The old one works for %s yet.", overlap)
	}
	if !k.EarlierUntil.IsZero() {
		question += " The one before stops at once."
	}
	return question
}

func writeReissuedKey(t *table, k adminapi.ReissuedKey) {
	stops := "has stopped"
	if !k.EarlierUntil.IsZero() {
		stops = "works until " + when(k.EarlierUntil)
	}
	t.row("key", k.Key)
	t.row("id", k.ID)
	t.row("label", orDash(k.Label))
	fmt.Fprintf(t, "\nKeep the key now: it is not shown again. The old one %s.\n", stops)
	if !k.EarlierUntil.IsZero() {
		fmt.Fprintf(t, "To end it early: purser keys end-overlap %s\n", label(k.ID))
	}
	if k.Exec {
		fmt.Fprintf(t, "'purser exec' uses the new one by itself; programs that it has started need a new start.\n")
	}
	if len(k.Configured) > 0 {
		pays := "nothing is paid with it"
		if !k.EarlierUntil.IsZero() {
			pays = "nothing is paid with it after that"
		}
		fmt.Fprintf(t, "%s still has the old one, and %s: set it to the new key and restart purser.\n", label(strings.Join(k.Configured, " and ")), pays)
	}
}
