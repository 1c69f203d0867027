package bookkeeping

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Bounds of OFX.
const (
	ofxName    = 32
	ofxMemo    = 255
	ofxAccount = 22
)

const (
	// ofxBuffer is the text of a wallet that is packed at once.
	ofxBuffer = 64 << 10
	// ofxMost bounds the packed text of all wallets. It has a few million bookings.
	ofxMost = 256 << 20
)

var errOFXTooLarge = errors.New("too much for one OFX file: export a shorter time, or one wallet")

// ofx writes OFX 2.1.1. The bookings of a wallet stand together, so they are kept packed until the end.
type ofx struct {
	to      *bufio.Writer
	over    Range
	wallets map[ofxWallet]*ofxList
	packer  *flate.Writer
	packed  int
}

type ofxWallet struct{ network, address, symbol string }

type ofxList struct {
	text        bytes.Buffer
	packed      bytes.Buffer
	first, last time.Time
	sum         big.Int
	digits      int
}

func newOFX(to io.Writer, over Range) *ofx {
	packer, _ := flate.NewWriter(io.Discard, flate.BestSpeed) // the level is valid
	return &ofx{bufio.NewWriter(to), over, map[ofxWallet]*ofxList{}, packer, 0}
}

// escaped replaces what OFX escapes. Parsers of OFX know no other references.
var escaped = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// element writes an element of XML.
func element(name, value string) string {
	return "<" + name + ">" + escaped.Replace(oneLine(value)) + "</" + name + ">"
}

// bounded cuts a text to a number of characters.
func bounded(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most])
	}
	return text
}

func ofxTime(at time.Time) string { return at.UTC().Format("20060102150405.000") + "[0:GMT]" }

func (w *ofx) Write(b Booking) error {
	if err := b.check(); err != nil {
		return err
	}
	of := ofxWallet{b.Network, strings.ToLower(b.Wallet), b.Symbol}
	l := w.wallets[of]
	if l == nil {
		l = &ofxList{first: b.At, digits: b.Digits}
		w.wallets[of] = l
	}
	l.last = b.At
	l.sum.Add(&l.sum, b.signed())
	kind := "DEBIT"
	switch {
	case b.Enters():
		kind = "CREDIT"
	case b.Kind == Withdrawal:
		kind = "XFER"
	}
	memo := b.narration()
	for _, d := range b.details() {
		switch d[0] {
		case "key", "pay-to", "from", "transaction":
			memo += ", " + d[0] + " " + d[1]
		}
	}
	l.text.WriteString("<STMTTRN>" + element("TRNTYPE", kind) + element("DTPOSTED", ofxTime(b.At)) + element("TRNAMT", b.change()) +
		element("FITID", b.ID))
	if b.PaymentID != "" {
		l.text.WriteString(element("REFNUM", bounded(strings.ReplaceAll(b.PaymentID, "-", ""), ofxName)))
	}
	l.text.WriteString(element("NAME", bounded(b.payee(), ofxName)) + element("MEMO", bounded(memo, ofxMemo)) + "</STMTTRN>\n")
	if l.text.Len() < ofxBuffer {
		return nil
	}
	return w.pack(l)
}

// pack makes the text of a wallet small.
func (w *ofx) pack(l *ofxList) error {
	before := l.packed.Len()
	w.packer.Reset(&l.packed)
	_, err := w.packer.Write(l.text.Bytes())
	if err = errors.Join(err, w.packer.Close()); err != nil {
		return err
	}
	l.text.Reset()
	if w.packed += l.packed.Len() - before; w.packed > ofxMost {
		return errOFXTooLarge
	}
	return nil
}

func (w *ofx) Close() error {
	end := w.over.To
	for _, l := range w.wallets {
		if w.over.To.IsZero() && l.last.After(end) {
			end = l.last
		}
	}
	if end.IsZero() {
		end = time.Unix(0, 0)
	}
	_, _ = w.to.WriteString(`<?xml version="1.0" encoding="UTF-8" standalone="no"?>` + "\n" +
		`<?OFX OFXHEADER="200" VERSION="211" SECURITY="NONE" OLDFILEUID="NONE" NEWFILEUID="NONE"?>` + "\n" +
		"<OFX><SIGNONMSGSRSV1><SONRS>" + ofxOK + element("DTSERVER", ofxTime(end)) + element("LANGUAGE", "ENG") +
		"</SONRS></SIGNONMSGSRSV1>\n")
	if len(w.wallets) > 0 {
		_, _ = w.to.WriteString("<BANKMSGSRSV1>\n")
		order := slices.SortedFunc(maps.Keys(w.wallets), func(a, b ofxWallet) int {
			return cmp.Or(cmp.Compare(a.network, b.network), cmp.Compare(a.address, b.address), cmp.Compare(a.symbol, b.symbol))
		})
		for i, of := range order {
			if err := w.statement(i+1, of, w.wallets[of], end); err != nil {
				return err
			}
		}
		_, _ = w.to.WriteString("</BANKMSGSRSV1>\n")
	}
	_, _ = w.to.WriteString("</OFX>\n")
	return w.to.Flush()
}

const ofxOK = "<STATUS><CODE>0</CODE><SEVERITY>INFO</SEVERITY></STATUS>"

// statement writes the bookings of a wallet. OFX knows no USDC: one counts as a US dollar.
func (w *ofx) statement(number int, of ofxWallet, l *ofxList, end time.Time) error {
	if err := w.pack(l); err != nil {
		return err
	}
	from := w.over.From
	if from.IsZero() {
		from = l.first
	}
	_, _ = w.to.WriteString("<STMTTRNRS>" + element("TRNUID", fmt.Sprint(number)) + ofxOK + "<STMTRS>" + element("CURDEF", "USD") +
		"<BANKACCTFROM>" + element("BANKID", bounded("purser", 9)) + element("ACCTID", bounded(of.address, ofxAccount)) + element("ACCTTYPE", "CHECKING") + "</BANKACCTFROM>\n" +
		"<BANKTRANLIST>" + element("DTSTART", ofxTime(from)) + element("DTEND", ofxTime(end)) + "\n")
	if err := unpack(w.to, &l.packed); err != nil {
		return err
	}
	_, err := w.to.WriteString("</BANKTRANLIST><LEDGERBAL>" + element("BALAMT", signedUnits(&l.sum, l.digits)) + element("DTASOF", ofxTime(end)) +
		"</LEDGERBAL></STMTRS></STMTTRNRS>\n")
	return err
}

// unpack writes the packed parts one after the other.
func unpack(to io.Writer, packed *bytes.Buffer) error {
	r := flate.NewReader(packed)
	for {
		if _, err := io.Copy(to, r); err != nil { //nolint:gosec // the text was packed here
			return err
		}
		if packed.Len() == 0 {
			return r.Close()
		}
		if err := r.(flate.Resetter).Reset(packed, nil); err != nil {
			return err
		}
	}
}
