package boltstore

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

var writeEncodings = flag.Bool("write-encodings", false, "write testdata/encodings anew: only for a new schema")

// second returns a moment after noon. Each field has its own, so that exchanged fields are noticed.
func second(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// vaultState holds the wrapped keys of a vault whose master key begins with 1, 2, 3.
const vaultState = `{"lookup":"wz4gJKnwSs+56EtrHeP8tSOvCNflqNsdFK9tSSXMVBONg2TfhuTXkJDKr7KRBBfD9hjUF/m7SvKPVdcw","data":{"1":"XRDxXKAI4qtsQB9SmU7XuBclXlFapp7FhcBwjgG36ZeI/20gvXcSzoM21u8Q1HL+Wgw/HRFtJ6eh6jnm"}}`

// everyStoredValue fills each field of everything that is stored as JSON.
func everyStoredValue() map[string]any {
	address := x402.EVMAddress([20]byte{0xad, 0xd2})
	seven := money.New(7)
	actor := pay.Actor{Kind: pay.ActorAccount, ID: "account-1"}
	sig := x402.Signature{0x51, 64: 0x1b}
	attempts, yes := 5, true
	budget := func(n uint64) policy.Budget {
		return policy.Budget{MaxPayment: policy.CapOf(money.New(n)), HourlyBudget: policy.CapOf(money.New(n + 2)), WeeklyBudget: policy.CapOf(money.New(n + 3)), DailyBudget: policy.CapOf(money.New(n + 1)), MonthlyBudget: policy.NoCap(), Total: &policy.Total{Amount: seven, Begin: second(60), Until: second(600), Restart: true}}
	}
	block := Block{Network: "base", Genesis: "0x9e", Number: 3, Hash: "0x4a", Time: second(30)}
	accepted := pay.Acceptance{At: second(40), By: "olga"}
	return map[string]any{
		"declined": []pay.Declined{{
			KeyID: "key-1", Day: pay.DayOf(noon), Reason: "daily-budget", Host: "api.example.com", Count: 3, First: second(1), Last: second(2),
			Price: &seven, Task: "crawl", Detail: "7 would pass the budget",
		}},
		"payment": &pay.Payment{
			ID: "payment-1", KeyID: "key-1", OrganizationID: "org-1", Door: policy.DoorProxy, Task: "crawl",
			RequestURL: "https://api.example.com/v1?a=1&b=<2>", Host: "api.example.com",
			Terms:    pay.Terms{Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.EVMAddress([20]byte{0xa5}), PayTo: x402.EVMAddress([20]byte{0x70}), Amount: seven},
			Currency: "USDC", WalletID: "wallet-1", Created: second(1),
			Fingerprint: pay.HashOf("fingerprint"), Identity: pay.HashOf("identity"), IdempotencyKey: "order-1",
			Offer: x402.Offer{Version: 2, Accepted: json.RawMessage(`{"amount": "7"}`), Resource: json.RawMessage(`{"url":"<u>"}`), Extensions: json.RawMessage(`{"e":1}`)},
			Authorization: x402.Authorization{
				From: x402.EVMAddress([20]byte{0xf0}), To: x402.EVMAddress([20]byte{0x70}), Value: seven, ValidAfter: 1, ValidBefore: uint64(second(60).Unix()), Nonce: x402.Nonce{0x0c},
				Rail: x402.RailUpto, Facilitator: x402.EVMAddress([20]byte{0xfa}), Message: "a transfer in words", Height: 9,
			},
			Attempt: 2, Bound: true, Signature: &sig,
			State: pay.Settled, Refused: true, RefusedAt: pay.StageSettle, Doubted: true, Unresolved: true, Confirmed: true, Disputed: true, Reconciled: true,
			Closed: second(2), Failed: true,
			Resolution: &pay.Resolution{At: second(3), By: "olga", As: pay.Void, Reason: "asked the seller", Proven: true},
			Canceling: &pay.Canceling{
				At: second(7), HandedOut: true,
				Terms: pay.TransactionTerms{Nonce: 8, Gas: 90_000, MaxFee: money.New(3_000_000_000), Tip: money.New(1_000_000)},
			},
			Transaction: "0x7a", Reason: "insufficient_funds", Detail: json.RawMessage(`{"isValid":false}`),
			Notes: []pay.Note{{At: second(4), Text: "receipt says failure"}}, SellerSaid: "insufficient_funds", EventID: "event-1", Charged: money.New(6), Waited: 1500 * time.Millisecond, CalledUntil: second(9),
			Lease:    pay.Lease{Owner: "node-1", Fence: 3, Until: second(5)},
			Answered: true, Unanswered: true, Receipted: true, Undelivered: true, Withheld: true, AnswerStatus: 503,
			AnswerBody: pay.AnswerBody{Hash: pay.HashOf("answer"), Size: 1 << 33, Cut: true},
			Reservations: []pay.Reservation{
				{Counter: "place/key/key-1/2026-11", Amount: money.New(1), Release: pay.ReleasePlace, Released: true},
				{Counter: "day/key-1/USDC/2026-11-15", Amount: seven, Release: pay.ReleaseBudget},
				{Counter: "hold/wallet-1/USDC", Amount: seven, Release: pay.ReleaseHold},
				{Counter: "pending/n/key-1", Amount: money.New(1), Release: pay.ReleasePending},
				{Counter: "minute/key-1/2026-11-15T12:00", Amount: money.New(1), Release: pay.ReleaseNever},
			},
			Price: "price/key-1/USDC/00", Check: second(6), Checks: 4, Retired: true, SignedReceipt: json.RawMessage(`{"format":"jws"}`),
		},
		"payment-new": &pay.Payment{State: pay.Open},
		"key": pay.Key{
			ID: "key-1", Label: "crawler", OrganizationID: "org-1", Created: second(1), Operator: true, Parent: "key-0", HasChildren: true,
			Policy: &policy.Policy{
				MaxPayment: policy.CapOf(seven), HourlyBudget: policy.CapOf(seven), DailyBudget: policy.NoCap(), WeeklyBudget: policy.CapOf(seven), MonthlyBudget: policy.CapOf(seven), PerMinute: &attempts, PriceGuard: &attempts,
				RequireApprovalAbove: policy.CapOf(seven), RequireApprovalNewHosts: &yes,
				Raise: &policy.Raise{
					Until: second(8), MaxPayment: policy.CapOf(seven), HourlyBudget: policy.CapOf(seven), WeeklyBudget: policy.CapOf(seven), DailyBudget: policy.NoCap(), MonthlyBudget: policy.CapOf(seven),
					PerMinute: &attempts, PriceGuard: &attempts, RequireApprovalAbove: policy.CapOf(seven),
				},
				Doors: []policy.Door{policy.DoorAPI, policy.DoorProxy, policy.DoorTransport}, AllowHosts: []string{"*.example.com"}, DenyHosts: []string{"bad.example.com:8443"}, SignInHosts: []string{"api.example.com"},
				AllowPayees: []x402.Address{x402.EVMAddress([20]byte{0x70})}, DenyPayees: []x402.Address{x402.EVMAddress([20]byte{0x71})}, OfferSigners: []x402.Address{x402.EVMAddress([20]byte{0x72})},
				Hosts: map[string]policy.Budget{"api.example.com": budget(10)}, Tasks: map[string]policy.Budget{"*": budget(20), "crawl": budget(30)},
			},
			PolicyRevision: 3, Paused: &pay.Pause{At: second(2), Reason: "holiday", By: actor}, RevokedAt: second(3),
			PausedHosts: map[string]pay.Pause{"api.example.com": {At: second(5), Reason: "gave nothing", By: actor}},
			Exec:        true, Reissued: second(4), Overlap: &pay.Overlap{Until: second(5), Hash: []byte("hash"), Reissued: second(6)},
			Used: map[policy.Door]time.Time{policy.DoorAPI: second(7)},
			Ends: second(8), // not stored
		},
		"key-new":      pay.Key{},
		"organization": pay.Organization{ID: "org-1", Plan: pay.PlanAgency, Created: second(1)},
		"wallet": pay.Wallet{
			ID: "wallet-1", KeyID: "key-1", ProviderID: "local_1", Network: "base", Address: &address, Created: second(1), Deleted: new(second(2)),
			Approving: &pay.Approving{
				At: second(3), Amount: seven, Terms: pay.TransactionTerms{Nonce: 8, Gas: 90_000, MaxFee: money.New(3_000_000_000), Tip: money.New(1_000_000)},
			},
		},
		"wallet-new": pay.Wallet{},
		"event": pay.SpendEvent{
			ID: "event-1", KeyID: "key-1", PaymentID: "payment-1", Amount: seven, Currency: "USDC", RequestURL: "https://api.example.com/v1",
			Task: "crawl", Host: "api.example.com", Created: second(1), Corrects: "event-0",
		},
		"event-new": pay.SpendEvent{},
		"audit": pay.AuditEntry{
			Number: 9, At: second(1), By: actor, Action: pay.ActionKeyPolicy, KeyID: "key-1", OrganizationID: "org-1", WalletID: "wallet-1",
			PaymentID: "payment-1", Old: json.RawMessage(`{"label":"a"}`), New: json.RawMessage(`{"label":"b"}`),
		},
		"audit-new": pay.AuditEntry{},
		"approval": pay.Approval{
			ID: "approval-1", KeyID: "key-1", OrganizationID: "org-1", Door: policy.DoorProxy, Task: "crawl", Method: "GET", Host: "api.example.com",
			URL:      "https://api.example.com/v1",
			Terms:    pay.Terms{Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.EVMAddress([20]byte{0xa5}), PayTo: x402.EVMAddress([20]byte{0x70}), Amount: seven},
			Currency: "USDC", Purchase: pay.HashOf("purchase"), Rule: "approval-above", Detail: "7 is above 5", Created: second(1), Expires: second(60),
			Answer: pay.Approved, Answered: second(2), By: actor, Reason: "needed", PaymentID: "payment-1", Used: second(3),
		},
		"approval-new": pay.Approval{},
		"account": codec.Account{
			ID: "account-1", Issuer: "https://idp.example.com", Subject: "sub-1", OrganizationID: "org-1", Created: second(1), SignedIn: second(2),
			Generation: 3, Person: []byte("sealed"),
		},
		"person":  codec.Person{Name: "Olga", Email: "olga@example.com"},
		"session": sessionRow{Expires: second(1), Data: []byte("sealed")},
		"notice": pay.Notice{
			Number: 7, ID: "notice-1", At: second(1), Kind: pay.NoticeBudget80, Once: "once", KeyID: "key-1", OrganizationID: "organization-1", WalletID: "wallet-1",
			PaymentID: "payment-1", ApprovalID: "approval-1", Host: "api.example.com", Payee: "0x01", Title: "title", Text: "text", Figures: map[string]string{"used": "8"},
			Marks: []string{"not stored"}, Run: "not stored", RunOf: 5,
		},
		"delivery": pay.Delivery{
			Destination: "hooks-1", Cursor: 7, Tries: 2, Refusals: 1, First: second(2), Next: second(3), Delivered: second(4), Failed: second(5), Error: "error",
			GivenUp: 1, Stopped: true, Version: 8,
		},
		"pause":       pay.Pause{At: second(1), Reason: "audit", By: actor},
		"safe-blocks": map[string]pay.ChainBlock{"base": {Number: 5, Hash: "0x05", Time: second(1)}},
		"backups": []Mark{{
			At: second(1), Block: &block, Copied: true, From: "/p/purser.db on host", RestoredAt: second(2), ReconciledAt: second(3), Accepted: &accepted, Booked: 2, Strange: []string{"s"},
		}},
		"reconciling": pay.Restore{
			Taken: second(1), Block: &block, At: second(2), Scans: map[string]pay.Scan{"base": {First: 1, Next: 2}}, Booked: 3, Strange: []string{"s"},
			StrangeCount: 4, Accepted: &accepted, Lost: true, Copied: true, From: "/p/purser.db on host",
		},
		"place": Place{Born: second(1), Inode: 7, Path: "/p/purser.db", Host: "host"},
	}
}

// What is stored is read by later versions, so neither a byte of its encoding nor the name of a
// field changes without a new schema. The files are what each value encodes to.
func TestStoredEncodings(t *testing.T) {
	t.Parallel()
	for name, value := range everyStoredValue() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !bytes.HasSuffix([]byte(name), []byte("-new")) {
				requireSet(t, name, reflect.ValueOf(value))
			}
			got := stored(t, value)
			file := filepath.Join("testdata", "encodings", name)
			if *writeEncodings {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("encodes to\n%q\nand was\n%q", got, want)
			}
			switch v := value.(type) {
			case *pay.Payment:
				rows := codec.Encode(v)
				back, err := codec.Decode(rows)
				if err != nil || !reflect.DeepEqual(back, v) {
					t.Errorf("is read as\n%+v\nand was\n%+v, %v", back, v, err)
				}
			case []pay.Declined:
				back, err := decodeDeclined(dayKey("key-1", noon), got)
				if err != nil || !reflect.DeepEqual(back, v) {
					t.Errorf("is read as\n%+v\nand was\n%+v, %v", back, v, err)
				}
			case pay.SpendEvent:
				back, err := decodeEvent(joinKey(v.KeyID, v.ID), got)
				if err != nil || !reflect.DeepEqual(back, v) {
					t.Errorf("is read as\n%+v\nand was\n%+v, %v", back, v, err)
				}
			}
		})
	}
}

// stored encodes a value as the store does.
func stored(t *testing.T, value any) []byte {
	t.Helper()
	var encoded []byte
	var err error
	switch v := value.(type) {
	case *pay.Payment:
		rows := codec.Encode(v)
		encoded = slices.Concat(rows.Row, rows.Payload)
	case pay.SpendEvent:
		encoded = codec.EncodeEvent(&v)
	case []pay.Declined:
		encoded, err = encodeDeclined(v)
	case pay.Pause, map[string]pay.ChainBlock, []Mark, pay.Restore, Place, codec.Person: // without a version
		encoded, err = json.Marshal(v)
	default:
		encoded, err = encodeRow(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// TestOddRows encodes what usual payments do not have.
func TestOddRows(t *testing.T) {
	t.Parallel()
	id := newID()
	for _, p := range []*pay.Payment{
		{
			ID: id, KeyID: "k1", WalletID: "k12", OrganizationID: strings.ToUpper(newID()), RequestURL: "https://u@API.example.com:8443?x", Host: "api.example.com:8443",
			Transaction: "0x" + strings.Repeat("AB", 32), Price: "price/k1/k12/\x01", Created: noon.Add(time.Nanosecond),
			Reservations: []pay.Reservation{{Counter: "day/k12/k1"}, {Counter: "\x00x"}, {Counter: "\x02/k1"}, {Counter: pay.Counter("n/" + id)}},
		},
		{
			ID: "", KeyID: id, RequestURL: "not a url", Transaction: "0x" + strings.Repeat("ab", 32), Terms: pay.Terms{Amount: amountOfBytes(t, bytes.Repeat([]byte{0xff}, 32))},
			Authorization: x402.Authorization{Value: money.New(1)}, Detail: json.RawMessage(`{}`),
		},
		{RequestURL: "https://api.example.com", Host: "api.example.com"},
	} {
		encoded := codec.Encode(p)
		back, err := codec.Decode(encoded)
		if err != nil || !reflect.DeepEqual(back, p) {
			t.Errorf("is read as\n%+v\nand was\n%+v, %v", back, p, err)
		}
		for cut := range encoded.Row {
			_, _ = codec.Decode(codec.Stored{Row: encoded.Row[:cut]}) // must not panic
		}
	}
}

func amountOfBytes(t *testing.T, b []byte) money.Amount {
	t.Helper()
	a, err := codec.Number(b).Amount()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// requireSet fails for a field that is zero: a field that omits its zero is not in the encoding.
func requireSet(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() { //nolint:exhaustive // other kinds hold no rows
	case reflect.Pointer:
		requireSet(t, path, v.Elem())
	case reflect.Slice:
		if v.Len() > 0 {
			requireSet(t, path, v.Index(0))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			requireSet(t, path, v.MapIndex(k))
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" || v.NumField() > 0 && !v.Type().Field(0).IsExported() {
			return // encodes itself
		}
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			if v.Field(i).IsZero() {
				t.Errorf("%s is not set here", name)
			}
			requireSet(t, name, v.Field(i))
		}
	}
}

// What finds rows, secrets and nonces again is derived from names that stay as they are.
func TestStoredDerivations(t *testing.T) {
	t.Parallel()
	master := vault.MasterKey{1, 2, 3}
	v, err := vault.Open(master, []byte(vaultState))
	if err != nil {
		t.Fatal(err)
	}
	d := &DB{}
	d.vault.Store(v)
	nonce := d.noncesOf("key-1", "order-1").Nonce(2)
	lookup := v.Lookup("pk_secret")
	day := codec.Day{
		Total: pay.Sum{Count: 3, Amount: money.New(300), Corrected: money.New(1)},
		Hosts: []pay.NameSum{{Name: "api.example.com", Sum: pay.Sum{Count: 2, Amount: money.New(200)}}},
		Tasks: []pay.NameSum{{Name: "crawl", Sum: pay.Sum{Count: 1, Amount: money.New(100)}}},
	}
	for name, is := range map[string]struct{ got, want string }{
		"identity":         {hex.EncodeToString(codec.AccountKey("https://idp.example.com", "sub-1")), "eed2aed477cc399a8a90fd976eee2aaefb8a792d73c9e45b3fc48d748ae0c018"},
		"account's secret": {codec.AccountSecret("1"), "account/1"},
		"key's secret":     {codec.KeySecret("1"), "api-key/1"},
		"session's secret": {codec.SessionSecret("1"), "session/1"},
		"wallet's secret":  {codec.WalletSecret("1"), "wallet/1"},
		"key by secret":    {hex.EncodeToString(lookup[:]), "787ee845fcab9f9e01fcf84f498e965730df3a31ec851d4ac36edee71f98734f"},
		"nonce":            {hex.EncodeToString(nonce[:]), "5bde775b33112f80d39b81f4a743eac11d0cae9a72a655fabced8683490d4fa4"},
		"day of spend":     {hex.EncodeToString(day.Encode()), "010302012c0101010f6170692e6578616d706c652e636f6d0201c8000105637261776c01016400"},
	} {
		if is.got != is.want {
			t.Errorf("%s is %s, want %s", name, is.got, is.want)
		}
	}
}

// A payment is read as it was written, whichever fields it has and however long they are.
func TestRowsOfAnyFields(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := *everyStoredValue()["payment"].(*pay.Payment)
		v := reflect.ValueOf(&p).Elem()
		for i := range v.NumField() {
			if rapid.Bool().Draw(t, v.Type().Field(i).Name) {
				v.Field(i).SetZero()
			}
		}
		p.Task = strings.Repeat("t", rapid.SampledFrom([]int{0, 23, 24, 255, 256, 70_000}).Draw(t, "length"))
		p.Lease.Fence = rapid.Uint64().Draw(t, "fence") >> rapid.IntRange(0, 63).Draw(t, "shift")
		p.Created = time.Unix(0, rapid.Int64().Filter(func(n int64) bool { return n != 0 }).Draw(t, "created")).UTC()
		p.ID = rapid.SampledFrom([]string{"", "p", newID(), strings.ToUpper(newID()), strings.ReplaceAll(newID(), "-", "")}).Draw(t, "id")
		back, err := codec.Decode(codec.Encode(&p))
		if err != nil || !reflect.DeepEqual(back, &p) {
			t.Fatalf("is read as\n%+v\nand was\n%+v, %v", back, &p, err)
		}
	})
}
