package dashboard

import (
	"crypto/rand"
	"maps"
	"sync"
	"time"

	"github.com/purserpay/purser/treasury"
)

const (
	// orderTime bounds the time between the review of a withdrawal and its confirmation, and the time for
	// which a repeated confirmation finds the result. The sign-in that it needs is as fresh.
	orderTime = 15 * time.Minute
	maxOrders = 1000
)

// orders keeps withdrawals between their review and their confirmation, so that a confirmation carries
// no terms, and the same form sends once. They are kept in memory: after a restart, a form that the
// browser sends again finds nothing, and nothing is sent.
type orders struct {
	mu   sync.Mutex
	list map[string]*order
}

// order is a reviewed withdrawal of one session.
type order struct {
	session, account string
	what             treasury.Withdrawal
	until            time.Time
	// sending holds one token. Its holder reads and writes payment.
	sending chan struct{}
	payment string // the id of the payment that it began; "" before
}

func newOrders() orders { return orders{list: map[string]*order{}} }

// add keeps an order, and returns its id. It returns "" while too many others wait.
func (o *orders) add(v visit, what treasury.Withdrawal) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.list, func(_ string, one *order) bool { return !v.now.Before(one.until) })
	if len(o.list) >= maxOrders {
		return ""
	}
	id := rand.Text()
	o.list[id] = &order{session: v.Session, account: v.Account.ID, what: what, until: v.now.Add(orderTime), sending: make(chan struct{}, 1)}
	return id
}

// of finds an order of the visitor's session about a wallet.
func (o *orders) of(v visit, id, walletID string) (*order, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	one, ok := o.list[id]
	if !ok || !v.now.Before(one.until) || one.session != v.Session || one.account != v.Account.ID || one.what.Wallet.ID != walletID {
		return nil, false
	}
	return one, true
}
