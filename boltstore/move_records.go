package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/internal/move"
	"github.com/purserpay/purser/pay"
)

// movedSettings names the settings that move in the meta bucket.
func movedSettings() map[string][]byte {
	return map[string][]byte{
		move.SettingBackups: backupsKey, move.SettingDeployments: deploymentsKey, move.SettingDrawn: drawnKey, move.SettingExec: execKey,
		move.SettingGenesis: genesisKey, move.SettingPause: pauseKey, move.SettingRemoved: removedKey, move.SettingRestored: reconcilingKey,
		move.SettingSafeBlocks: safeBlocksKey, move.SettingVault: vaultKey, move.SettingWorld: worldKey,
	}
}

// ownSettings lists the keys of the meta bucket that belong to the file and do not move.
func ownSettings() [][]byte {
	return [][]byte{schemaKey, storeIDKey, resumedKey, epochKey, openedKey, sessionCountKey, moveKey}
}

// movedBuckets names the bucket whose rows are the records of a kind.
func movedBuckets() map[move.Kind][]byte {
	return map[move.Kind][]byte{
		move.Setting: metaBucket, move.Organization: orgsBucket, move.Key: keysBucket, move.ReplacedSecret: replacedBucket, move.Account: accountsBucket,
		move.Wallet: walletsBucket, move.Loan: lentWalletsBucket, move.Payment: paymentsBucket, move.RemovedAttempt: attemptsBucket,
		move.Spend: eventsBucket, move.SpendDay: spendDaysBucket, move.WalletDay: walletDaysBucket, move.Counter: countersBucket,
		move.Declined: declinedBucket, move.Audit: auditBucket, move.Notice: noticesBucket, move.NoticeMark: marksBucket,
		move.Delivery: deliveriesBucket, move.Approval: approvalsBucket, move.Session: sessionsBucket,
	}
}

// exportKind visits the records of a kind behind a position.
func exportKind(ctx context.Context, tx *bbolt.Tx, kind move.Kind, behind *move.Position, visit func(move.Record) error) error {
	if kind == move.Setting {
		return exportSettings(tx, behind, visit)
	}
	hashes := map[string]string{}
	if kind == move.Key {
		err := tx.Bucket(keyHashBucket).ForEach(func(hash, id []byte) error {
			hashes[string(id)] = string(hash)
			return nil
		})
		if err != nil {
			return err
		}
	}
	c := tx.Bucket(movedBuckets()[kind]).Cursor()
	k, v := c.First()
	if behind != nil && behind.Kind == kind {
		k, v = c.Seek(seekFor(behind))
	}
	for rows := 0; k != nil; k, v = c.Next() {
		if rows++; rows%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r, err := recordIn(tx, kind, k, v, hashes)
		if err != nil {
			return fmt.Errorf("%q: %w", k, err)
		}
		if r == nil || !behind.Before(*r) {
			continue
		}
		if err := visit(*r); err != nil {
			return err
		}
	}
	return nil
}

// seekFor returns a key at or before the record of a position.
func seekFor(p *move.Position) []byte {
	switch p.Kind { //nolint:exhaustive // the others have their name as the key
	case move.Audit, move.Notice:
		return []byte(encodeNumber(int64(p.N))) //nolint:gosec // a count
	}
	return p.A
}

func exportSettings(tx *bbolt.Tx, behind *move.Position, visit func(move.Record) error) error {
	meta, known := tx.Bucket(metaBucket), movedSettings()
	own := map[string]bool{}
	for _, key := range ownSettings() {
		own[string(key)] = true
	}
	for _, key := range known {
		own[string(key)] = true
	}
	err := meta.ForEach(func(key, _ []byte) error {
		if !own[string(key)] {
			return fmt.Errorf("%q is a setting that this purser does not know", key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range move.Settings() {
		r := move.Record{Kind: move.Setting, A: name, Row: meta.Get(known[name])}
		if len(r.Row) == 0 || !behind.Before(r) {
			continue
		}
		if name == move.SettingExec { // an id, which is JSON elsewhere
			if r.Row, err = json.Marshal(string(r.Row)); err != nil {
				return err
			}
		}
		if err := visit(r); err != nil {
			return err
		}
	}
	return nil
}

// recordIn makes the record of a row; nil: it is none.
func recordIn(tx *bbolt.Tx, kind move.Kind, k, v []byte, hashes map[string]string) (*move.Record, error) {
	r := &move.Record{Kind: kind, A: string(k), Row: v}
	var err error
	switch kind { //nolint:exhaustive // settings are elsewhere
	case move.Organization, move.Account, move.Delivery, move.Approval:
		r.Row, err = plainRow(v)
	case move.Key:
		if r.Row, err = plainRow(v); err != nil {
			return nil, err
		}
		r.B, r.More = hashes[r.A], tx.Bucket(keySecretsBucket).Get(k)
		if r.B == "" {
			return nil, errors.New("no hash finds the key")
		}
		r.N, err = revisionIn(tx, r.A)
	case move.ReplacedSecret:
		r.B, r.Row = string(v), nil
	case move.Wallet:
		r.More = tx.Bucket(walletSecretsBucket).Get(k)
		r.Row, err = plainRow(v)
	case move.Loan:
		if err = split(r, k); err == nil {
			r.N, r.Row = decodeNumber(v), nil
		}
	case move.Payment:
		r.More = tx.Bucket(payloadsBucket).Get(k)
	case move.RemovedAttempt:
		return removedAttemptIn(k)
	case move.Spend:
		err = split(r, k)
	case move.SpendDay, move.WalletDay:
		r.A, r.N, err = splitDay(k)
	case move.Declined:
		var list []pay.Declined
		if list, err = decodeDeclined(k, v); err != nil {
			return nil, err
		}
		if r.A, r.N, err = splitDay(k); err == nil {
			r.Row, err = move.DeclinedRow(list)
		}
	case move.Audit, move.Notice:
		r.A, r.N = "", decodeNumber(k)
		r.Row, err = plainRow(v)
	case move.Session:
		var row sessionRow
		err = decodeRow(v, &row)
		r.N, r.Row = decodeNumber([]byte(encodeTime(row.Expires))), row.Data
	case move.NoticeMark:
		if len(v) != 16 {
			return nil, errors.New("mark of another length")
		}
		r.B, r.N, r.Row = string(v[:8]), decodeNumber(v[8:]), nil
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func split(r *move.Record, key []byte) error {
	a, b, ok := bytes.Cut(key, []byte{0})
	if !ok {
		return errors.New("a key of one part")
	}
	r.A, r.B = string(a), string(b)
	return nil
}

func splitDay(key []byte) (id string, day uint64, err error) {
	if len(key) < 9 || key[len(key)-9] != 0 {
		return "", 0, errors.New("a key without a day")
	}
	return string(key[:len(key)-9]), decodeNumber(key[len(key)-8:]), nil
}

// removedAttemptIn reads an entry of keepAttempt; nil: it is the entry of a payment.
func removedAttemptIn(k []byte) (*move.Record, error) {
	const tail = 1 + 32 + 1 + 8 + 1 // hash of the idempotency key and attempt, behind the key's id
	if !isKeptAttempt(k) {
		return nil, nil
	}
	at := len(k) - tail
	if at < 0 {
		return nil, errors.New("an attempt of another length")
	}
	return &move.Record{Kind: move.RemovedAttempt, A: string(k[:at]), B: string(k[at+1 : at+33]), N: decodeNumber(k[at+34:])}, nil
}

// plainRow returns the JSON of encodeRow.
func plainRow(encoded []byte) ([]byte, error) {
	if len(encoded) == 0 || encoded[0] != rowVersion {
		return nil, errors.New("row of an unknown encoding")
	}
	return encoded[1:], nil
}

// importRecord writes a record with its indexes.
func (b *batch) importRecord(r move.Record) error {
	id, row := []byte(r.A), append([]byte{rowVersion}, r.Row...)
	put := func(bucket, key, value []byte) indexRow { return indexRow{bucket, key, value} }
	switch r.Kind {
	case move.Setting:
		return b.importSetting(r)
	case move.Organization:
		return b.putAll(put(orgsBucket, id, row))
	case move.Key:
		return b.importKey(r, row)
	case move.ReplacedSecret:
		return b.putAll(put(replacedBucket, id, []byte(r.B)))
	case move.Account:
		var a codec.Account
		if err := json.Unmarshal(r.Row, &a); err != nil {
			return err
		}
		return b.putAll(put(accountsBucket, id, row), put(identitiesBucket, codec.AccountKey(a.Issuer, a.Subject), id))
	case move.Wallet:
		return b.importWallet(r, row)
	case move.Loan:
		return b.putAll(put(lentWalletsBucket, joinKey(r.A, r.B), numberRow(r.N)), put(walletKeysBucket, joinKey(r.B, r.A), nil))
	case move.Payment:
		return b.importPayment(r)
	case move.RemovedAttempt:
		return b.putAll(put(attemptsBucket, joinKey(r.A, r.B, string(numberRow(r.N)), ""), nil))
	case move.Spend:
		return b.importSpend(r)
	case move.SpendDay:
		return b.putAll(put(spendDaysBucket, joinKey(r.A, string(numberRow(r.N))), r.Row))
	case move.WalletDay:
		return b.putAll(put(walletDaysBucket, joinKey(r.A, string(numberRow(r.N))), r.Row))
	case move.Counter:
		return b.putAll(put(countersBucket, id, r.Row))
	case move.Declined:
		var list []pay.Declined
		if err := json.Unmarshal(r.Row, &list); err != nil {
			return err
		}
		text, err := encodeDeclined(list)
		if err != nil {
			return err
		}
		return b.putAll(put(declinedBucket, joinKey(r.A, string(numberRow(r.N))), text))
	case move.Audit:
		return b.importAudit(r, row)
	case move.Notice:
		return b.putAll(put(noticesBucket, numberRow(r.N), row))
	case move.NoticeMark:
		return b.putAll(put(marksBucket, id, append([]byte(r.B), numberRow(r.N)...)), put(marksExpiryBucket, joinKey(r.B, r.A), nil))
	case move.Delivery:
		return b.putAll(put(deliveriesBucket, id, row))
	case move.Approval:
		var a pay.Approval
		if err := json.Unmarshal(r.Row, &a); err != nil {
			return err
		}
		for _, e := range approvalEntries(&a) {
			if err := b.put(e.bucket, e.key, nil); err != nil {
				return err
			}
		}
		return b.putAll(put(approvalsBucket, id, row))
	case move.Session:
		return b.importSession(r)
	case move.Kinds:
	}
	return fmt.Errorf("a record of an unknown kind")
}

// indexRow is a row of a bucket.
type indexRow struct{ bucket, key, value []byte }

func (b *batch) putAll(list ...indexRow) error {
	for _, e := range list {
		if err := b.put(e.bucket, e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

// numberRow encodes a number of 8 bytes.
func numberRow(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func (b *batch) importSetting(r move.Record) error {
	key, value := movedSettings()[r.A], r.Row
	if key == nil {
		return fmt.Errorf("%q is not known", r.A)
	}
	if r.A == move.SettingExec {
		var id string
		if err := json.Unmarshal(value, &id); err != nil {
			return err
		}
		value = []byte(id)
	}
	return b.put(metaBucket, key, value)
}

func (b *batch) importKey(r move.Record, row []byte) error {
	var k pay.Key
	if err := json.Unmarshal(r.Row, &k); err != nil {
		return err
	}
	id := []byte(r.A)
	list := []indexRow{{keysBucket, id, row}, {keyHashBucket, []byte(r.B), id}}
	if r.N > 0 {
		list = append(list, indexRow{revisionsBucket, id, strconv.AppendUint(nil, r.N, 10)})
	}
	if len(r.More) > 0 {
		list = append(list, indexRow{keySecretsBucket, id, r.More})
	}
	if k.Claimed() {
		list = append(list, indexRow{orgKeysBucket, joinKey(k.OrganizationID, r.A), nil})
	}
	return b.putAll(list...)
}

func (b *batch) importWallet(r move.Record, row []byte) error {
	var w pay.Wallet
	if err := json.Unmarshal(r.Row, &w); err != nil {
		return err
	}
	id := []byte(r.A)
	list := []indexRow{{walletsBucket, id, row}}
	if w.Address != nil {
		list = append(list, indexRow{addressesBucket, w.Address[:], id})
	}
	if len(r.More) > 0 {
		list = append(list, indexRow{walletSecretsBucket, id, r.More})
	}
	if w.Deleted == nil {
		list = append(list, indexRow{liveWalletsBucket, joinKey(w.KeyID, r.A), nil})
	}
	return b.putAll(list...)
}

func (b *batch) importPayment(r move.Record) error {
	p, err := codec.Decode(codec.Stored{Row: r.Row, Payload: r.More})
	if err != nil {
		return fmt.Errorf("payment %s: %w", r.A, err)
	}
	list := []indexRow{{paymentsBucket, []byte(r.A), r.Row}}
	if len(r.More) > 0 {
		list = append(list, indexRow{payloadsBucket, []byte(r.A), r.More})
	}
	if err := b.putAll(list...); err != nil {
		return err
	}
	return b.reindex(nil, p)
}

func (b *batch) importSpend(r move.Record) error {
	e, err := codec.DecodeEvent(r.A, r.B, r.Row)
	if err != nil {
		return fmt.Errorf("spend event %s: %w", r.B, err)
	}
	list := []indexRow{{eventsBucket, joinKey(r.A, r.B), r.Row}}
	if e.Task != "" {
		list = append(list, indexRow{taskEventsBucket, joinKey(r.A, e.Task, r.B), nil})
	}
	if e.Host != "" {
		list = append(list, indexRow{hostEventsBucket, hostEventKey(&e), nil})
	}
	return b.putAll(list...)
}

func (b *batch) importAudit(r move.Record, row []byte) error {
	var e pay.AuditEntry
	if err := json.Unmarshal(r.Row, &e); err != nil {
		return err
	}
	list := []indexRow{{auditBucket, numberRow(r.N), row}}
	for _, key := range auditLists(e) {
		list = append(list, indexRow{auditOfBucket, key, nil})
	}
	return b.putAll(list...)
}

func (b *batch) importSession(r move.Record) error {
	row, err := encodeRow(sessionRow{Expires: time.Unix(0, int64(r.N)).UTC(), Data: r.Row}) //nolint:gosec // written from an int64
	if err != nil {
		return err
	}
	n, err := sessionCount(b.tx)
	if err != nil {
		return err
	}
	return b.putAll(
		indexRow{sessionsBucket, []byte(r.A), row}, indexRow{sessionsExpiryBucket, joinKey(string(numberRow(r.N)), r.A), nil},
		indexRow{metaBucket, sessionCountKey, strconv.AppendInt(nil, int64(n+1), 10)})
}
