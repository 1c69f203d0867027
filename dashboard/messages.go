package dashboard

import (
	"net/http"
	"strings"
)

// said is a message that the page after a redirect shows once. A cookie carries it as a word from a
// fixed list, so that no link can put text on a page.
type said string

const (
	saidKeyCreated     said = "key-created"
	saidKeyCreatedOnce said = "key-created-once"
	saidKeyLinked      said = "key-linked"
	saidKeyPaused      said = "key-paused"
	saidKeyResumed     said = "key-resumed"
	saidHostResumed    said = "host-resumed"
	saidKeyRevoked     said = "key-revoked"
	saidKeyReissued    said = "key-reissued"
	saidAllPaused      said = "all-paused"
	saidAllResumed     said = "all-resumed"
	saidKeyOverlaps    said = "key-overlaps"
	saidOverlapEnded   said = "overlap-ended"
	saidLimitsSaved    said = "limits-saved"
	saidRaiseEnded     said = "raise-ended"
	saidWalletCreated  said = "wallet-created"
	saidWalletDeleted  said = "wallet-deleted"
	saidApproved       said = "approved"
	saidApprovedRaised said = "approved-raised"
	saidNothingToRaise said = "approved-nothing-to-raise"
	saidRaiseFailed    said = "approved-raise-failed"
	saidDenied         said = "denied"
)

var messages = map[said]string{
	saidKeyCreated:     "Key created. Copy it now. To see it later, you have to sign in again.",
	saidKeyCreatedOnce: "Key created. Copy it now: no copy is kept, and it is not shown again.",
	saidKeyLinked:      "Key linked. From now on its payments are your organization's.",
	saidKeyPaused:      "Key paused. It makes no new payment until you resume it.",
	saidKeyResumed:     "Key resumed. It pays again.",
	saidHostResumed:    "Host resumed. The key pays it again.",
	saidKeyRevoked:     "Key revoked. Nothing accepts it any more.",
	saidKeyReissued:    "Key reissued. Copy the new secret now and give it to the programs that pay: the old one has ended.",
	saidAllPaused:      "Everything is paused. No key makes a new payment until you resume.",
	saidAllResumed:     "Everything is resumed. All keys pay again, but those that were paused themselves.",
	saidKeyOverlaps:    "Key reissued. Copy the new secret now and give it to the programs that pay: the old one works for a while yet.",
	saidOverlapEnded:   "The old secret has ended. Nothing accepts it any more.",
	saidLimitsSaved:    "Limits saved. They hold for every payment that begins from now on.",
	saidRaiseEnded:     "The raise has ended. The lasting limits hold again.",
	saidWalletCreated:  "Wallet created. Its key can pay as soon as there is USDC in it.",
	saidWalletDeleted:  "Wallet deleted. Nothing is paid with it any more.",
	saidApproved:       "Payment approved. It is made now if the agent still waits, and else when it repeats its request.",
	saidApprovedRaised: "Payment approved, and the limit raised: the key pays this price without an approval from now on.",
	saidNothingToRaise: "Payment approved. There was no limit to raise.",
	saidRaiseFailed:    "Payment approved, but the limit could not be raised. You can raise it on the page of the key.",
	saidDenied:         "Payment denied. The agent reads your reason.",
}

const messageCookie = "purser-said"

// takeMessage returns the message of the last answer, and deletes it.
func (d *dashboard) takeMessage(w http.ResponseWriter, r *http.Request) string {
	c, err := r.Cookie(messageCookie)
	if err != nil {
		return ""
	}
	d.setMessage(w, r, "", -1)
	return messages[said(c.Value)]
}

func (d *dashboard) setMessage(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure on a secure connection
		Name: messageCookie, Value: value, Path: "/dashboard", MaxAge: age, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: r.TLS != nil || strings.HasPrefix(d.origin, "https:"),
	})
}
