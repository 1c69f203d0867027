// Package move carries the file of a stopped store into an empty database: the records that one writes and the
// other reads, and the order of the steps. Nothing here decides about payments.
package move

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/purserpay/purser/pay"
)

// Kind tells what a record is. Kinds are moved in this order.
type Kind uint8

// The kinds, with their fields. Row is JSON, unless something else is said. Secrets stay sealed.
const (
	Setting        Kind = iota // A: name; Row: its value
	Organization               // A: id
	Key                        // A: id; B: hash of the secret; N: revision; More: the secret
	ReplacedSecret             // A: hash of the secret; B: key id
	Account                    // A: id
	Wallet                     // A: id; More: the secret
	Loan                       // A: key id; B: wallet id; N: when, in nanoseconds
	Payment                    // A: id; Row and More: the rows of internal/codec
	RemovedAttempt             // A: key id; B: hash of the idempotency key; N: attempt
	Spend                      // A: key id; B: id; Row: of internal/codec
	SpendDay                   // A: key id; N: days since 1970; Row: of internal/codec
	WalletDay                  // A: wallet id; N: days since 1970; Row: of internal/codec
	Counter                    // A: name; Row: decimal; zeros are left out
	Declined                   // A: key id; N: days since 1970
	Audit                      // N: number
	Notice                     // N: number
	NoticeMark                 // A: name; B: until, 8 bytes of nanoseconds; N: count
	Delivery                   // A: destination
	Approval                   // A: id
	Session                    // A: id; N: when it expires, in nanoseconds; Row: its data, sealed
	Kinds                      // their number
)

func (k Kind) String() string {
	return [...]string{
		"settings", "organizations", "keys", "replaced secrets", "accounts", "wallets", "loans", "payments", "removed attempts", "spend events",
		"days of keys", "days of wallets", "counters", "declined", "audit", "notices", "notice marks", "deliveries", "approvals", "sessions", "end",
	}[min(k, Kinds)]
}

// The names of settings that both stores know.
const (
	SettingVault       = "vault" // wrapped keys: both stores open with one master key, and derive the same nonces
	SettingWorld       = "world"
	SettingGenesis     = "genesis"
	SettingSafeBlocks  = "safe-blocks"
	SettingPause       = "pause"
	SettingDeployments = "deployments"
	SettingDrawn       = "drawn"
	SettingExec        = "exec"
	SettingRestored    = "restored"
	SettingRemoved     = "removed"
	SettingBackups     = "backups" // marks of the file of bbolt
)

// Settings lists the names of settings that are moved, in order.
func Settings() []string {
	return []string{
		SettingBackups, SettingDeployments, SettingDrawn, SettingExec, SettingGenesis, SettingPause, SettingRemoved, SettingRestored, SettingSafeBlocks, SettingVault, SettingWorld,
	}
}

// Record holds one row of a store in the form that both stores share. Records of a kind are in the
// order of A, B and N, compared byte by byte.
type Record struct {
	Kind      Kind
	A, B      string
	N         uint64
	Row, More []byte
}

// DeclinedRow encodes the Row of a Declined record, whose key and day are in A and N.
func DeclinedRow(list []pay.Declined) ([]byte, error) {
	list = slices.Clone(list)
	for i, d := range list {
		list[i].KeyID, list[i].Day, list[i].First, list[i].Last = "", time.Time{}, d.First.UTC(), d.Last.UTC()
	}
	return json.Marshal(list)
}
