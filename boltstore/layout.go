package boltstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// The buckets. Parts of a key are separated by a zero byte, numbers are 8 bytes
// big-endian, so that every question is one seek and neighbours are in order.
var (
	metaBucket = []byte("meta") // schema, store id, world, wrapped keys

	keysBucket       = []byte("keys")              // key id -> key
	keyHashBucket    = []byte("keys_by_hash")      // keyed hash of the secret -> key id
	replacedBucket   = []byte("keys_replaced")     // keyed hash of a secret that was replaced -> key id
	keySecretsBucket = []byte("key_secrets")       // key id -> sealed secret; keys that pay.Key.Kept names
	revisionsBucket  = []byte("policy_revisions")  // key id -> decimal; none: 0
	orgsBucket       = []byte("organizations")     // organization id -> organization
	orgKeysBucket    = []byte("organization_keys") // organization id, key id -> nothing

	accountsBucket       = []byte("accounts")             // account id -> account, what its provider says of it sealed
	identitiesBucket     = []byte("accounts_by_identity") // hash of issuer and subject -> account id
	sessionsBucket       = []byte("sessions")             // session id -> sealed session
	sessionsExpiryBucket = []byte("sessions_by_expiry")   // expires (ns), session id -> nothing

	walletsBucket       = []byte("wallets")            // wallet id -> wallet
	walletSecretsBucket = []byte("wallet_secrets")     // wallet id -> sealed secret
	liveWalletsBucket   = []byte("wallets_live")       // key id, wallet id -> nothing; the key owns it
	addressesBucket     = []byte("wallets_by_address") // address -> wallet id, deleted or not
	lentWalletsBucket   = []byte("wallets_lent")       // key id, wallet id -> when (ns); deleted wallets too
	walletKeysBucket    = []byte("wallet_keys")        // wallet id, key id -> nothing; the other way of wallets_lent

	paymentsBucket     = []byte("payments")          // payment id -> payment
	payloadsBucket     = []byte("payloads")          // payment id -> what its payload takes; until the payment is retired
	keyPaymentsBucket  = []byte("payments_by_key")   // key id, payment id -> nothing
	labelsBucket       = []byte("payments_by_label") // key id, label, payment id -> nothing; sparse labels only
	labelledBucket     = []byte("payments_labelled") // label bits, payment id -> nothing; see codec.LabelBits
	awaitedBucket      = []byte("payments_awaited")  // key id, identity, expiry (s), payment id -> nothing
	hostsBucket        = []byte("payments_by_host")  // key id, host hash, validBefore (s), payment id -> nothing
	leasesBucket       = []byte("leases")            // until (ns), payment id -> nothing
	dueBucket          = []byte("payments_due")      // check (ns), payment id -> nothing
	livingBucket       = []byte("payments_living")   // key id, SHA-256 of the idempotency key, payment id -> nothing; only attempts that live, of which the last one counts. See pay.Payment.LivesUnder
	transactionsBucket = []byte("payments_by_tx")    // transactionKey, payment id -> nothing
	attemptsBucket     = []byte("attempts")          // key id, SHA-256 of the idempotency key, attempt, payment id -> nothing; stays when the payment is retired. See keepAttempt
	noncesBucket       = []byte("reconciled")        // nonce, payment id -> nothing; payments that only the chain tells of, and those that are Bound
	labelCountsBucket  = []byte("label_counts")      // label -> number of payments that have it

	eventsBucket     = []byte("spend")         // key id, event id -> spend event
	taskEventsBucket = []byte("spend_by_task") // key id, task, event id -> nothing; events with a task only
	hostEventsBucket = []byte("spend_by_host") // key id, SHA-256 of the host, event id -> nothing; events with a host only
	spendDaysBucket  = []byte("spend_days")    // key id, UTC day (days since 1970) -> what it adds up to, see codec.Day
	countersBucket   = []byte("counters")      // counter -> decimal
	walletDaysBucket = []byte("wallet_days")   // wallet id, UTC day (days since 1970) -> what left the wallet, see codec.EncodeWalletDay
	declinedBucket   = []byte("declined")      // key id, UTC day (days since 1970) -> what was declined to the key, see declinedRow

	auditBucket   = []byte("audit")    // number -> audit entry
	auditOfBucket = []byte("audit_of") // "key" or "organization", its id, number -> nothing

	noticesBucket     = []byte("notices")                // number -> notice
	marksBucket       = []byte("notice_marks")           // mark -> until (ns), count
	marksExpiryBucket = []byte("notice_marks_by_expiry") // until (ns), mark -> nothing
	deliveriesBucket  = []byte("deliveries")             // destination -> how far it has got

	approvalsBucket    = []byte("approvals")             // approval id -> approval
	keyApprovalsBucket = []byte("approvals_by_key")      // key id, approval id -> nothing
	pendingBucket      = []byte("approvals_pending")     // key id or "", expires (ns), approval id -> nothing; those without an answer
	purchasesBucket    = []byte("approvals_by_purchase") // key id, purchase, approval id -> nothing; unused ones
)

var allBuckets = [][]byte{
	metaBucket, keysBucket, keyHashBucket, keySecretsBucket, orgsBucket, orgKeysBucket,
	walletsBucket, walletSecretsBucket, liveWalletsBucket, addressesBucket,
	paymentsBucket, keyPaymentsBucket, labelsBucket, awaitedBucket, hostsBucket, leasesBucket, dueBucket,
	livingBucket, transactionsBucket, labelCountsBucket, eventsBucket, countersBucket,
	revisionsBucket, taskEventsBucket, labelledBucket,
	attemptsBucket, noncesBucket,
	hostEventsBucket, spendDaysBucket,
	accountsBucket, identitiesBucket, sessionsBucket, sessionsExpiryBucket,
	auditBucket, auditOfBucket,
	payloadsBucket,
	replacedBucket, lentWalletsBucket, walletKeysBucket,
	declinedBucket,
	noticesBucket, marksBucket, marksExpiryBucket, deliveriesBucket,
	approvalsBucket, keyApprovalsBucket, pendingBucket, purchasesBucket,
	walletDaysBucket,
}

// paymentBuckets lists the buckets that readers may see before their changes are durable: see
// batch.early.
var paymentBuckets = [][]byte{
	paymentsBucket, payloadsBucket, keyPaymentsBucket, labelsBucket, labelledBucket, awaitedBucket, hostsBucket, leasesBucket,
	dueBucket, livingBucket, transactionsBucket, attemptsBucket, labelCountsBucket,
	eventsBucket, taskEventsBucket, hostEventsBucket, spendDaysBucket, walletDaysBucket, countersBucket,
}

// hashedBuckets lists the buckets whose keys come in no order.
var hashedBuckets = [][]byte{keyHashBucket, replacedBucket, addressesBucket, identitiesBucket, sessionsBucket, awaitedBucket, livingBucket, transactionsBucket, attemptsBucket, noncesBucket, purchasesBucket}

// Keys of the meta bucket.
var (
	schemaKey  = []byte("schema")  // decimal, see schema
	storeIDKey = []byte("id")      // random, tells this file from another at the same path
	worldKey   = []byte("world")   // see pay.Store
	vaultKey   = []byte("vault")   // wrapped keys, see package vault
	resumedKey = []byte("resumed") // when writing last went on after an outage

	epochKey       = []byte("epoch")       // of the journal, see epochIn
	openedKey      = []byte("opened")      // when the store was opened last
	pauseKey       = []byte("pause")       // pay.Pause; none: nothing is paused
	deploymentsKey = []byte("deployments") // ids of the keys that were the deployment's own
	execKey        = []byte("exec")        // id of the exec key that was made last
	drawnKey       = []byte("drawn")       // network -> id of the deployment's wallet
	genesisKey     = []byte("genesis")     // network -> hash of block 0
	safeBlocksKey  = []byte("safe_blocks") // network -> pay.ChainBlock, the last safe one

	sessionCountKey = []byte("sessions") // number of sessions, decimal; none: 0
)

// schema numbers the layout of buckets and index keys. A change of the layout raises it. Stores of a higher number, or
// one below oldestSchema, are refused: see checkSchema. 11 has label sets of two bytes in the index of labels, where 10
// had one. 12 has policies with budgets of hours and weeks, which an older purser would pass. 13 has totals of tasks
// and keys with a parent, which an older purser would pass, too. A store of 10 to 12 is one of 13, and gets its number
// when it is opened.
const schema, oldestSchema = 13, 10

// checkSchema refuses a store that this purser cannot read: ErrNewer, ErrOlder.
func checkSchema(meta *bbolt.Bucket) error {
	switch n, err := strconv.Atoi(string(meta.Get(schemaKey))); {
	case err != nil || n < 1:
		return fmt.Errorf("%w, or it is damaged: it has no schema number", errNoStore)
	case n > schema:
		return fmt.Errorf("%w: its schema is %d and this purser reads schema %d; use the newer purser that wrote it", ErrNewer, n, schema)
	case n < oldestSchema:
		return fmt.Errorf("%w: its schema is %d, from before the first release, and this purser reads schema %d; "+
			"use the purser that wrote it, or begin with an empty data directory", ErrOlder, n, schema)
	}
	return nil
}

// joinKey makes a key of parts.
func joinKey(parts ...string) []byte { return []byte(strings.Join(parts, "\x00")) }

// keyPrefix makes the prefix of all keys that begin with these parts.
func keyPrefix(parts ...string) []byte { return append(joinKey(parts...), 0) }

// encodeNumber makes the part of a key for a number. Numbers below zero become zero.
func encodeNumber(n int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(n, 0))))
}

// decodeNumber reads the number at the beginning of a part.
func decodeNumber(part []byte) uint64 { return binary.BigEndian.Uint64(part) }

// encodeTime makes the part of a key for a time, in nanoseconds. Times out of range become the
// first or last one.
func encodeTime(t time.Time) string {
	switch year := t.Year(); {
	case year < 1970:
		return encodeNumber(0)
	case year > 2261:
		return encodeNumber(math.MaxInt64)
	}
	return encodeNumber(t.UnixNano())
}

// rowVersion is the first byte of every encoded row. A new encoding takes a new number, and
// readers know all numbers.
const rowVersion = 1

// encodeRow encodes a key, organization, wallet, account, session or audit entry.
func encodeRow(row any) ([]byte, error) {
	text, err := json.Marshal(row)
	if err != nil {
		return nil, fmt.Errorf("encode row: %w", err)
	}
	return append([]byte{rowVersion}, text...), nil
}

// decodeRow decodes a row of encodeRow. The row shares no memory with encoded.
func decodeRow(encoded []byte, row any) error {
	if len(encoded) == 0 || encoded[0] != rowVersion {
		return fmt.Errorf("row of an unknown encoding")
	}
	if err := json.Unmarshal(encoded[1:], row); err != nil {
		return fmt.Errorf("decode row: %w", err)
	}
	return nil
}

// page lists the rows of a bucket by key from behind one, at most limit and maxPage.
func page[T any](ctx context.Context, d *DB, bucket []byte, after string, limit int) (list []T, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		id, encoded := c.Seek([]byte(after))
		if after != "" && string(id) == after {
			id, encoded = c.Next()
		}
		for ; id != nil && len(list) < min(limit, maxPage); id, encoded = c.Next() {
			var row T
			if err := decodeRow(encoded, &row); err != nil {
				return fmt.Errorf("%s %s: %w", bucket, id, err)
			}
			list = append(list, row)
		}
		return nil
	})
	return list, err
}

// metaIn decodes a JSON value of the meta bucket; nil: there is none.
func metaIn[T any](tx *bbolt.Tx, key []byte) (*T, error) {
	text := tx.Bucket(metaBucket).Get(key)
	if text == nil {
		return nil, nil
	}
	value := new(T)
	if err := json.Unmarshal(text, value); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return value, nil
}
