package cli

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const dashboardHelp = `
Makes a link that signs you in to the dashboard of a running purser as its operator, with
every key, wallet and payment. The link works once, for five minutes; the session ends after
12 hours. No identity provider is needed. Only those who may ask purser's admin endpoint can
make a link: no API key can.

In a terminal on a machine with a display, the link opens in your browser; over SSH it does not.
Other users of the machine can see the link among the arguments of the browser for a moment.
--no-open only prints it.

--url names the address by which the browser reaches purser, if it is another one than purser's:
that of an SSH tunnel with another port, for example.

--sign-out ends every session that such a link began, those of all other people who see the
whole purser, and every link that still waits.

    $ purser dashboard
    $ purser dashboard --no-open
    $ purser dashboard --json
    $ purser dashboard --url http://localhost:9000
    $ purser dashboard --sign-out`

func (env *Env) dashboardCommand(c *cobra.Command) {
	a := env.asks(c)
	out := a.Flags().Bool("sign-out", false, "end all sessions of operators, instead of beginning one")
	at := a.Flags().String("url", "", "scheme, host and port of the link")
	stay := a.Flags().Bool("no-open", false, "open no browser")
	a.changes("make a link that signs an operator in")
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error {
		if *out {
			a.dry.would = "end all sessions of operators"
			return tell(a, http.MethodDelete, "/purser/dashboard", nil, func(t *table, _ adminapi.DashboardSignOut) {
				_, _ = fmt.Fprintln(t, "All sessions of operators have ended.")
			})
		}
		base, err := baseOf(*at)
		if err != nil {
			return err
		}
		var link adminapi.DashboardLink
		if err := a.client.call(a.Context(), http.MethodPost, "/purser/dashboard", nil, &link); err != nil {
			return err
		}
		if _, path, ok := strings.Cut(link.URL, "/dashboard/"); ok && base != "" {
			link.URL = base + "/dashboard/" + path
		}
		err = show(a.OutOrStdout(), a.json, link, func(t *table, l adminapi.DashboardLink) { writeDashboardLink(t, l, base == "") })
		if err == nil && !a.json.on && !*stay && a.openBrowser(link.URL) {
			say(c, "Your browser opens the link.")
		}
		return err
	})
}

// baseOf reads an address without a path. It returns "" for "".
func baseOf(given string) (string, error) {
	if given == "" {
		return "", nil
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return "", fmt.Errorf("--url: not an address such as http://localhost:9000: %.200q", given)
	}
	return u.Scheme + "://" + u.Host, nil
}

// writeDashboardLink prints a link. hint adds how a browser on another machine gets there.
func writeDashboardLink(t *table, l adminapi.DashboardLink, hint bool) {
	fmt.Fprintf(t, `%s

Open this link in a browser and press the button: you are the operator there. It works once,
until %s. Give it to nobody: the first browser that presses the button is signed in.
`, label(l.URL), when(l.Expires))
	u, err := url.Parse(l.URL)
	if err != nil || !hint {
		return
	}
	at, err := netip.ParseAddrPort(u.Host)
	if u.Hostname() == "localhost" && u.Port() != "" || err == nil && at.Addr().IsLoopback() {
		fmt.Fprintf(t, `
Is your browser on another machine? Run this there first, with the name of this machine for HOST:
  ssh -L %s:%s HOST
With another local port, such as 9000, ask for the link with --url %s://localhost:9000
`, u.Port(), u.Host, u.Scheme)
	}
}
