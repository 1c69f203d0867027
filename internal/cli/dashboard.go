package cli

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const dashboardHelp = `
Prints a link that signs you in to the dashboard of a running purser as its operator, with
every key, wallet and payment. The link works once, for five minutes; the session ends after
12 hours. No identity provider is needed. Only those who may ask purser's admin endpoint can
make a link: no API key can.

--sign-out ends every session that such a link began, and every link that still waits.

    $ purser dashboard
    $ purser dashboard --json
    $ purser dashboard --sign-out`

func (env *Env) dashboardCommand(c *cobra.Command) {
	a := env.asks(c)
	out := a.Flags().Bool("sign-out", false, "end all sessions of operators, instead of beginning one")
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error {
		if *out {
			return tell(a, http.MethodDelete, "/purser/dashboard", nil, func(t *table, _ adminapi.DashboardSignOut) {
				_, _ = fmt.Fprintln(t, "All sessions of operators have ended.")
			})
		}
		return tell(a, http.MethodPost, "/purser/dashboard", nil, writeDashboardLink)
	})
}

func writeDashboardLink(t *table, l adminapi.DashboardLink) {
	fmt.Fprintf(t, `%s

Open this link in a browser and press the button: you are the operator there. It works once,
until %s. Give it to nobody: the first browser that presses the button is signed in.
`, label(l.URL), when(l.Expires))
	u, err := url.Parse(l.URL)
	if err != nil {
		return
	}
	if at, err := netip.ParseAddrPort(u.Host); err == nil && at.Addr().IsLoopback() {
		fmt.Fprintf(t, `
Is your browser on another machine? Run this there first, with the name of this machine for HOST:
  ssh -L %d:%s HOST
`, at.Port(), at)
	}
}
