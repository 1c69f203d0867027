// Package trouble is the one list of what can be wrong with a purser as a whole: what it is, since when, what it means for
// agents, and what to do. Status, health, the dashboard's bar and notices all show this list. Faults of a single payment or
// request are not here: see packages pay and declines.
package trouble

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// Effect says what a trouble does to new payments.
type Effect string

// The effects, the worst first.
const (
	Stops Effect = "stops" // no new payments are made, or none of a kind
	Soon  Effect = "soon"  // it will stop payments if it stays
	Look  Effect = "look"  // a person should look at it
)

// Trouble is something that is wrong.
type Trouble struct {
	// Code names it, and stays the same over versions.
	Code   string `json:"code"`
	Effect Effect `json:"effect"`
	// Says names the fault, Means tells what agents notice, Do tells an operator the way out: a sentence each.
	Says  string `json:"says"`
	Means string `json:"means"`
	Do    string `json:"do"`
	// Since is when this process noticed it, or when it began, where that is known.
	Since time.Time `json:"since,omitzero"`
	// Page is the place in the documentation, such as operating.md#purserrpcdown.
	Page string `json:"page"`
	// Path is the page of the dashboard that shows more, "" if none does.
	Path string `json:"path,omitempty"`
	// Private: it names what only the operator may see.
	Private bool `json:"-"`
}

// Exit is the exit status of a command that shows troubles: 1 if one stops payments, 2 if one will, else 0.
func Exit(list []Trouble) int {
	has := func(e Effect) bool { return slices.ContainsFunc(list, func(t Trouble) bool { return t.Effect == e }) }
	switch {
	case has(Stops):
		return 1
	case has(Soon):
		return 2
	}
	return 0
}

// Wallet is a wallet of the operator's with little in it.
type Wallet struct {
	Name, Network, Address string
	Tokens                 string // that it pays with
	Balance                money.Amount
}

// Sight holds everything that is looked at.
type Sight struct {
	Health pay.Health
	// FacilitatorRests says why the facilitator gets no new payments, nil if it does.
	FacilitatorRests error
	// DiskFree and DiskLeast are bytes, of the disk of the database; nil if they are not known.
	DiskFree, DiskLeast *uint64
	// Empty wallets have nothing, Low ones less than the operator's mark.
	Empty, Low []Wallet
	// Unresolved, Disputed and Held count payments: those without evidence, those that the chain contradicts, and those that
	// wait for a person.
	Unresolved, Disputed, Held int
	// PausedHosts names hosts that are paused for a key, with the keys.
	PausedHosts []string
	// Notices lists destinations that do not take notices, with their answers.
	Notices []string
}

// lowDisk times the least free space is short.
const lowDisk = 4

// Find lists the troubles, the worst first.
func Find(s Sight) (list []Trouble) {
	add := func(t Trouble) { list = append(list, t) }
	h := s.Health
	switch {
	case h.Store.Err != nil:
		add(Trouble{
			Code: "store", Effect: Stops, Says: "purser cannot read or write its books: " + h.Store.Err.Error(),
			Means: "Requests that cost money are refused with store-unavailable. Nothing is lost or paid twice.",
			Do:    "Look at the disk or the database. purser goes on by itself once it can write.", Page: "operating.md#purserstorefailing",
		})
	case h.Reconciling != nil:
		t := Trouble{
			Code: "reconciling", Effect: Stops, Since: h.Reconciling.At, Says: "The database was restored, and is not reconciled with the chain yet: " + h.Reconciling.Refusal().Error(),
			Means: "Nothing is paid until then, because payments from after the backup may be missing in the books.",
			Do:    "See how far it is: purser reconcile.", Page: "operating.md#purserreconciling",
		}
		if h.Reconciling.Copied {
			t.Says = "This folder was copied or moved, and is not reconciled with the chain yet: " + h.Reconciling.Refusal().Error()
			t.Means = "Nothing is paid until then, because the other folder may have paid since."
			t.Do, t.Page = "Make sure that the other one never starts again, and see how far it is: purser reconcile.", "moving.md#a-folder-that-was-copied"
		}
		add(t)
	}
	if p := h.Paused; p != nil {
		says := "All new payments are paused"
		if who := p.By.String(); who != "" {
			says += ", by the " + who
		}
		if p.Reason != "" {
			says += ": " + p.Reason
		}
		add(Trouble{
			Code: "paused", Effect: Stops, Since: p.At, Says: says, Means: "Requests that cost money are refused with paused. Those that were paid before go on.",
			Do: "To pay again: purser resume.", Page: "operating.md#stopping-payments", Private: true,
		})
	}
	s.clock(add)
	s.services(add)
	if s.DiskFree != nil && s.DiskLeast != nil && h.Store.Err == nil && *s.DiskFree/lowDisk < *s.DiskLeast {
		add(Trouble{
			Code: "disk", Effect: Soon, Says: fmt.Sprintf("The disk of the database has %d MiB left, and below %d MiB no payment is begun", *s.DiskFree>>20, *s.DiskLeast>>20),
			Means: "Agents notice nothing yet.", Do: "Make room, or keep closed payments for a shorter time (PURSER_RETAIN).", Page: "operating.md#purserdiskshort",
		})
	}
	s.wallets(add)
	s.payments(add)
	if n := len(s.Notices); n > 0 {
		add(Trouble{
			Code: "notices", Effect: Look, Says: "Notices do not arrive at " + s.Notices[0] + more(n-1, "other destination"),
			Means: "Agents notice nothing, but people may miss an approval.", Do: "Test it: purser webhooks test.", Page: "troubleshooting.md#notices", Private: true,
		})
	}
	slices.SortStableFunc(list, func(a, b Trouble) int { return cmp.Compare(rank(a.Effect), rank(b.Effect)) })
	return list
}

func rank(e Effect) int { return slices.Index([]Effect{Stops, Soon, Look}, e) }

// more names the rest of a list, "" if there is none.
func more(n int, of string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " and 1 " + of
	}
	return fmt.Sprintf(" and %d %ss", n, of)
}

func (s Sight) clock(add func(Trouble)) {
	c := s.Health.Clock
	if c.OK && !c.Stopped {
		return
	}
	t := Trouble{
		Code: "clock", Effect: Soon, Says: "The clock of " + cmp.Or(c.Whose, "purser") + " is wrong: " + ClockText(c),
		Means: "Authorizations may be refused as expired, or as not yet valid.", Do: "Set the clock by NTP.", Page: "operating.md#purserclockwrong",
	}
	if source, behind := lags(c); behind {
		t.Says = "The " + source + " is behind, and the clock of " + cmp.Or(c.Whose, "purser") + " is right: " + ClockText(c)
		t.Means, t.Do = "Agents notice nothing. What became of payments stays unknown, and their money reserved.", "Set another RPC, if it stays."
	}
	if c.Stopped {
		t.Effect, t.Means, t.Page = Stops, "Nothing new is signed, because it could be dead or live too long.", "operating.md#purserclockstopped"
	}
	add(t)
}

// lags reports whether the blocks of an RPC are old while its own clock agrees with ours, and nothing else differs.
func lags(c pay.ClockState) (source string, behind bool) {
	for _, s := range c.Sources {
		switch late := s.BlockAhead > time.Minute/2; {
		case s.Stops, s.Ahead.Abs() > time.Minute/2, s.BlockAhead < -time.Minute/2, late && !s.Known:
			return "", false
		case late:
			source = strings.Replace(string(s.Source), "rpc", "RPC", 1)
		}
	}
	return source, source != ""
}

// pausedHosts names the hosts that are paused for keys.
func pausedHosts(keys []pay.Key) (list []string) {
	for _, k := range keys {
		if k.Revoked() {
			continue
		}
		for _, host := range slices.Sorted(maps.Keys(k.PausedHosts)) {
			list = append(list, host+" for "+k.Name()+": "+k.PausedHosts[host].Reason)
		}
	}
	return list
}

// ClockText is "ok", or how our clock differs from others.
func ClockText(s pay.ClockState) string {
	if s.OK {
		return "ok"
	}
	var differs []string
	for _, one := range s.Sources {
		if one.Ahead != 0 {
			differs = append(differs, "ahead of "+string(one.Source)+" by "+one.Ahead.Round(time.Second).String())
		}
		if one.BlockAhead.Abs() > time.Minute/2 {
			differs = append(differs, "ahead of the latest block of "+string(one.Source)+" by "+one.BlockAhead.Round(time.Second).String())
		}
	}
	text := strings.Join(differs, ", ")
	if s.Whose != "purser" {
		text = s.Whose + "'s clock is " + text
	}
	if s.Stopped {
		return "no new payments: " + text
	}
	return text
}

// services tells of those that purser asks.
func (s Sight) services(add func(Trouble)) {
	h := s.Health
	why := func(p pay.Probe) string {
		if p.Err != nil {
			return ": " + p.Err.Error()
		}
		return ""
	}
	if failing(h.Signer) {
		add(Trouble{
			Code: "signer", Effect: Stops, Says: "The signer of the wallets does not answer" + why(h.Signer), Means: "Nothing can be signed, so that nothing is paid.",
			Do: "Look at the signer, and at its token.", Page: "troubleshooting.md#the-signer",
		})
	}
	if rests := s.FacilitatorRests; failing(h.Facilitator) || rests != nil {
		t := Trouble{
			Code: "facilitator", Effect: Stops, Says: "The facilitator does not answer" + why(h.Facilitator),
			Means: "What purser settles itself is refused. Sellers that settle are paid as before.",
			Do:    "Look at the facilitator's status page, or set another one (PURSER_FACILITATOR_URL).", Page: "operating.md#purserfacilitatordown",
		}
		if !failing(h.Facilitator) {
			t.Says = "The facilitator fails, and gets no new payments for a while: " + rests.Error()
		}
		add(t)
	}
	if failing(h.RPC) {
		says := "The RPC does not answer as it should"
		if missing(h) {
			says = "A network has no RPC"
		}
		add(rpc(h, says+why(h.RPC)))
	}
	if failing(h.SecondRPC) {
		add(Trouble{
			Code: "second-rpc", Effect: Soon, Says: "The second RPC does not answer as it should" + why(h.SecondRPC),
			Means: "No payment becomes void, because both must agree. What failed stays reserved in the budgets.",
			Do:    "Look at its provider's status page, or set another one (" + settings(h, "PURSER_RPC_URL_2", secondOf) + ").", Page: "operating.md#pursersecondrpcdown",
		})
	}
	if len(h.Differences) > 0 {
		add(Trouble{
			Code: "nodes", Effect: Look, Says: "Nodes have different limits: " + strings.Join(h.Differences, "; "), Means: "A payment is judged by the limits of the node that it comes to.",
			Do: "Give all nodes the same configuration.", Page: "scale.md", Private: true,
		})
	}
}

// rpc tells of RPCs that fail. Tempo is paid with their help only.
func rpc(h pay.Health, says string) Trouble {
	t := Trouble{
		Code: "rpc", Effect: Soon, Says: says, Means: "Payments go on, without a look at balances.",
		Do: "Look at the provider's status page and at your quota there, or set another one (" + settings(h, "PURSER_RPC_URL", firstOf) + ").", Page: "operating.md#purserrpcdown",
	}
	if missing(h) {
		t.Do = "Set one (" + settings(h, "PURSER_RPC_URL", firstOf) + ")."
	}
	for _, n := range h.Networks {
		if n.Unready {
			t.Effect = Stops
			t.Means = "Nothing new is paid on " + n.Title + ". On other networks payments go on, without a look at balances where the RPC fails."
		}
	}
	t.Means += " What became of an unclear payment stays unknown, and its money reserved."
	return t
}

// missing reports whether networks without an RPC are all that fails.
func missing(h pay.Health) bool {
	found := false
	for _, n := range h.Networks {
		if failing(n.RPC) && !errors.Is(n.RPC.Err, pay.ErrUnwatched) {
			return false
		}
		found = found || failing(n.RPC)
	}
	return found
}

func failing(p pay.Probe) bool { return p.Configured && !p.OK }

func firstOf(n pay.NetworkHealth) (pay.Probe, string)  { return n.RPC, n.RPCSetting }
func secondOf(n pay.NetworkHealth) (pay.Probe, string) { return n.SecondRPC, n.SecondRPCSetting }

// settings names the settings of the RPCs that fail.
func settings(h pay.Health, otherwise string, of func(pay.NetworkHealth) (pay.Probe, string)) string {
	var names []string
	for _, n := range h.Networks {
		if probe, name := of(n); failing(probe) {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(names, ", "), otherwise)
}

func (s Sight) wallets(add func(Trouble)) {
	name := func(list []Wallet) string {
		w := list[0]
		return fmt.Sprintf("%s, %s on %s", w.Name, w.Address, w.Network) + more(len(list)-1, "other wallet")
	}
	fund := func(list []Wallet) string {
		return "Send " + cmp.Or(list[0].Tokens, money.Symbol) + " to it, on this network."
	}
	const pages = "operating.md#purserwalletlow"
	if len(s.Empty) > 0 {
		add(Trouble{
			Code: "wallet-empty", Effect: Soon, Says: "A wallet is empty: " + name(s.Empty), Means: "Requests of its keys that cost money are refused with insufficient-funds.",
			Do: fund(s.Empty), Page: pages, Path: "/dashboard/wallets", Private: true,
		})
	}
	if len(s.Low) > 0 {
		add(Trouble{
			Code: "wallet-low", Effect: Soon, Says: fmt.Sprintf("A wallet holds %s only: %s", money.Text(s.Low[0].Balance), name(s.Low)), Means: "Agents notice nothing yet.",
			Do: fund(s.Low), Page: pages, Path: "/dashboard/wallets", Private: true,
		})
	}
}

func (s Sight) payments(add func(Trouble)) {
	some := func(n int, what string) string {
		if n == 1 {
			return "1 payment " + strings.Replace(what, "are", "is", 1)
		}
		return fmt.Sprintf("%d payments %s", n, what)
	}
	if s.Disputed > 0 {
		add(Trouble{
			Code: "disputed", Effect: Look, Says: some(s.Disputed, "are disputed: a word about them and the chain's differ"), Means: "The money counts as spent.",
			Do: "Compare: purser payments --state disputed.", Page: "operating.md#purserpaymentsdisputed", Path: "/dashboard/payments?state=disputed", Private: true,
		})
	}
	if s.Unresolved > 0 {
		add(Trouble{
			Code: "unresolved", Effect: Look, Says: some(s.Unresolved, "are unresolved: there is no evidence of what became of the money"), Means: "It stays reserved in the budgets.",
			Do: "Look them up: purser payments --state unresolved.", Page: "operating.md#purserpaymentsunresolved", Path: "/dashboard/payments?state=unresolved", Private: true,
		})
	}
	if n := len(s.PausedHosts); n > 0 {
		add(Trouble{
			Code: "hosts-paused", Effect: Look, Says: "A host is paused for a key: " + s.PausedHosts[0] + more(n-1, "other"), Means: "Requests of the key to this host that cost money are refused with host-paused.",
			Do: "To pay it again: purser keys resume KEY --host HOST.", Page: "operating.md#a-seller-took-the-money-and-gave-nothing", Path: "/dashboard/keys", Private: true,
		})
	}
	if s.Held > 0 {
		add(Trouble{
			Code: "approvals", Effect: Look, Says: some(s.Held, "are waiting for a person"), Means: "The agents wait for the answer, or ask again.",
			Do: "Answer: purser approvals.", Page: "approvals.md#answer", Path: "/dashboard/approvals?state=pending", Private: true,
		})
	}
}
