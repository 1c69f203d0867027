package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const keysReissueHelp = `
Gives a key a new secret and prints it, once. Wallets, limits, history and organization stay. The
old secret stops at once, for ever: programs that have it can neither pay nor read. For the exec
key nothing else is to be done, because 'purser exec' asks purser. If a setting such as PURSER_KEY
names the key, change it there too: the command says so.

    $ purser keys reissue research
    $ purser keys reissue 0199… --json`

func reissueKeyCommand(keys *asking) {
	a := keys.sub("reissue KEY", "Gives a key a new secret", keysReissueHelp, cobra.ExactArgs(1))
	a.jsonFlag(printsJSON)
	a.ValidArgsFunction = a.env.keyIDs()
	a.runs(func(args []string) error {
		if err := checkID("KEY", args[0]); err != nil {
			return err
		}
		return tell(a, http.MethodPost, keyPath(args[0])+"/reissue", nil, func(t *table, k adminapi.ReissuedKey) {
			t.row("key", k.Key)
			t.row("id", k.ID)
			t.row("label", orDash(k.Label))
			fmt.Fprintf(t, "\nKeep the key now: it is not shown again. The old one has stopped.\n")
			if k.Exec {
				fmt.Fprintf(t, "'purser exec' uses the new one by itself; programs that it has started need a new start.\n")
			}
			if len(k.Configured) > 0 {
				fmt.Fprintf(t, "%s still has the old one, and nothing is paid with it: set it to the new key and restart purser.\n",
					label(strings.Join(k.Configured, " and ")))
			}
		})
	})
}
