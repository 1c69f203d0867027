package dashboard

import (
	"net/http"
	"strings"
)

// said is a message that the page after a redirect shows once. A cookie carries it as a word from a
// fixed list, so that no link can put text on a page.
type said string

const (
	saidKeyCreated    said = "key-created"
	saidKeyLinked     said = "key-linked"
	saidKeyPaused     said = "key-paused"
	saidKeyResumed    said = "key-resumed"
	saidKeyRevoked    said = "key-revoked"
	saidWalletCreated said = "wallet-created"
	saidWalletDeleted said = "wallet-deleted"
)

type message struct{ Kind, Text string }

var messages = map[said]message{
	saidKeyCreated:    {Text: "Key created. Copy it now; later it is shown only after signing in anew."},
	saidKeyLinked:     {Text: "Key linked. From now on its payments are your organization's."},
	saidKeyPaused:     {Text: "Key paused. It makes no new payment until you resume it."},
	saidKeyResumed:    {Text: "Key resumed. It pays again."},
	saidKeyRevoked:    {Text: "Key revoked. Nothing accepts it any more."},
	saidWalletCreated: {Text: "Wallet created. Its key can pay as soon as there is USDC in it."},
	saidWalletDeleted: {Text: "Wallet deleted. Nothing is paid with it any more."},
}

const messageCookie = "purser-said"

func (d *dashboard) leaveMessage(w http.ResponseWriter, r *http.Request, s said) {
	if s != "" {
		d.setMessage(w, r, string(s), 60)
	}
}

// takeMessage returns the message of the last answer, and deletes it.
func (d *dashboard) takeMessage(w http.ResponseWriter, r *http.Request) *message {
	c, err := r.Cookie(messageCookie)
	if err != nil {
		return nil
	}
	d.setMessage(w, r, "", -1)
	m, ok := messages[said(c.Value)]
	if !ok {
		return nil
	}
	return &m
}

func (d *dashboard) setMessage(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure on a secure connection
		Name: messageCookie, Value: value, Path: "/dashboard", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || strings.HasPrefix(d.origin, "https:"),
	})
}
