package bookkeeping

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/purserpay/purser/pay"
)

// Roots of the account names.
const (
	walletsRoot     = "Assets:Purser:"
	spentRoot       = "Expenses:Agents:"
	depositsName    = "Equity:Purser:Deposits"
	withdrawalsName = "Equity:Purser:Withdrawals"
	unbookedName    = "Equity:Purser:Unbooked"
)

// maxComponent bounds a part of an account name, in characters.
const maxComponent = 60

// component makes a part of an account name: ASCII letters, digits and dashes, as beancount wants them,
// with a capital or a digit first. Two hosts never share one. A dot becomes a dash, a dash becomes two.
// Whatever else is in the text becomes a dash, and three dashes with a hash of the text follow.
func component(text string) string {
	var b strings.Builder
	exact := text != ""
	last := '.'
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case r == '.':
			exact = exact && last != '.' && last != '-'
			b.WriteByte('-')
		case r == '-':
			exact = exact && last != '.' && last != '-'
			b.WriteString("--")
		default:
			exact = false
			b.WriteByte('-')
		}
		last = r
	}
	exact = exact && last != '.' && last != '-'
	name := strings.TrimLeft(b.String(), "-")
	if len(name) > maxComponent {
		name, exact = name[:maxComponent], false
	}
	if !exact {
		hash := sha256.Sum256([]byte(text))
		name = strings.TrimRight(name, "-") + "---" + hex.EncodeToString(hash[:4])
		if name[0] == '-' {
			name = "X" + name
		}
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// KeyNames gives each key its part of account names: that of its label. If keys have equal names, the
// first one has it, and the others get the end of their id behind it. Keys are in the order in which they
// were made, so that a name stays when further keys come.
func KeyNames(keys []pay.Key) map[string]string {
	names, taken := make(map[string]string, len(keys)), make(map[string]bool, len(keys))
	for _, k := range keys {
		id := strings.ReplaceAll(k.ID, "-", "")
		name := "Key"
		if k.Label != "" {
			name = component(k.Label)
		}
		for end := 6; taken[name] || k.Label == "" && end == 6; end += 6 {
			name += "-" + id[max(0, len(id)-end):]
		}
		names[k.ID], taken[name] = name, true
	}
	return names
}

// short is an address for people: 0x and 8 digits.
func short(address string) string { return address[:min(len(address), 10)] }

// walletAccount names the account of the wallet.
func (b Booking) walletAccount() string {
	return walletsRoot + component(b.Network) + ":" + component(short(strings.ToLower(b.Wallet)))
}

// otherAccount names the account at the other side.
func (b Booking) otherAccount() string {
	switch b.Kind {
	case Withdrawal:
		return withdrawalsName
	case Deposit:
		return depositsName
	case Unbooked:
		return unbookedName
	case Payment:
	}
	key, host := b.KeyName, b.Host
	if key == "" {
		key = "Key"
	}
	if host == "" {
		host = "unknown"
	}
	return spentRoot + key + ":" + component(host)
}
