package dashboard

import (
	"net/http"
	"slices"
	"strings"
)

type start struct {
	Operator, HasKey, HasWallet  bool
	KeyName, KeyPath, WalletPath string
	Commands                     []command
}

func (d *dashboard) start(r *http.Request, v visit) (*start, error) {
	keys, err := d.Books.KeysIn(r.Context(), v.scope())
	if err != nil {
		return nil, err
	}
	wallets, err := d.Books.WalletsIn(r.Context(), v.scope())
	if err != nil {
		return nil, err
	}
	s := &start{Operator: v.operator(), HasKey: len(keys) > 0, HasWallet: len(wallets) > 0, Commands: d.tryCommands(r)}
	if s.HasKey {
		s.KeyName, s.KeyPath = label(keys[0]), keyPath(keys[0].ID)
	}
	if s.HasWallet {
		s.WalletPath = walletPath(wallets[0].ID)
	}
	return s, nil
}

// tryCommands returns commands that pay for something with the key in $PURSER_KEY. They work in any terminal that reaches
// this purser: with a key, purser exec needs nothing but the proxy's address.
func (d *dashboard) tryCommands(r *http.Request) []command {
	at, plain := strings.CutPrefix(d.address(r), "http://")
	proxy := ""
	if plain && !slices.Contains([]string{"127.0.0.1:8402", "localhost:8402"}, at) { // where purser exec looks without it
		proxy = ` --proxy "http://` + at + `"`
	}
	list := [][2]string{
		{"the command that pays for one request", `purser exec --key "$PURSER_KEY"` + proxy + ` --task demo -- curl -i ` + d.Example},
		{"the command that runs an agent", `purser exec --key "$PURSER_KEY"` + proxy + ` --task nightly -- python3 agent.py`},
	}
	if plain && strings.HasPrefix(d.Example, "http://") {
		list = append(list, [2]string{"the command without purser exec", `curl -i -x "http://$PURSER_KEY:demo@` + at + `" ` + d.Example})
	}
	return commands(list...)
}
