package notices

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/pay"
)

// message is a notice with the addresses that people act at. Title, text and figures may hold words of
// sellers and callers: each format makes them harmless in its own way.
type message struct {
	pay.Notice
	page    string // "": purser has no public address
	approve string // a signed link; "": none
}

// pageOf returns the address of the page that shows what a notice is about.
func pageOf(public string, n pay.Notice) string {
	if public == "" {
		return ""
	}
	path := "/dashboard/"
	switch {
	case n.ApprovalID != "":
		path = "/dashboard/approvals/" + url.PathEscape(n.ApprovalID)
	case n.Kind == pay.NoticeDeclined:
		path = "/dashboard/declined"
	case n.PaymentID != "" && !strings.HasPrefix(string(n.Kind), "budget"):
		path = "/dashboard/payments/" + url.PathEscape(n.PaymentID)
	case n.WalletID != "" && n.Kind == pay.NoticeLowBalance:
		path = "/dashboard/wallets/" + url.PathEscape(n.WalletID)
	case n.KeyID != "":
		path = "/dashboard/keys/" + url.PathEscape(n.KeyID)
	}
	return strings.TrimSuffix(public, "/") + path
}

const (
	maxTitle = 149 // and an ellipsis: Slack takes 150 characters
	maxText  = 2800
	maxFact  = 200
)

// clean puts a text on one line without characters that cannot be seen, such as those that turn the
// direction of writing.
func clean(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r), r == unicode.ReplacementChar:
			return ' '
		case !unicode.IsPrint(r), unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point):
			return -1
		}
		return r
	}, text)
	return words.Truncate(strings.Join(strings.Fields(text), " "), most)
}

func (m message) title() string { return clean(m.Title, maxTitle) }
func (m message) text() string  { return clean(m.Text, maxText) }

// fact is one of a message's figures.
type fact struct{ name, value string }

func (m message) facts() (list []fact) {
	names := make([]string, 0, len(m.Figures))
	for name := range m.Figures {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		list = append(list, fact{clean(name, maxFact), clean(m.Figures[name], maxFact)})
	}
	return list
}

// links lists what people can press.
func (m message) links() (list []fact) {
	if m.approve != "" {
		list = append(list, fact{"Approve or deny", m.approve})
	}
	if m.page != "" {
		list = append(list, fact{"Open purser", m.page})
	}
	return list
}

// Payload is the JSON that a webhook takes. Version rises with a change that receivers must know of.
type Payload struct {
	Type      pay.NoticeKind `json:"type"`
	Timestamp time.Time      `json:"timestamp"`
	Version   int            `json:"version"`
	Data      PayloadData    `json:"data"`
}

// PayloadData is the part of a Payload that the notice is about.
type PayloadData struct {
	ID           string            `json:"id"`
	Number       uint64            `json:"number"`
	Title        string            `json:"title"`
	Text         string            `json:"text"`
	Key          string            `json:"key,omitempty"`
	Organization string            `json:"organization,omitempty"`
	Wallet       string            `json:"wallet,omitempty"`
	Payment      string            `json:"payment,omitempty"`
	Approval     string            `json:"approval,omitempty"`
	Host         string            `json:"host,omitempty"`
	Payee        string            `json:"payee,omitempty"`
	Figures      map[string]string `json:"figures,omitempty"`
	Page         string            `json:"page,omitempty"`
	Approve      string            `json:"approve,omitempty"`
}

const payloadVersion = 1

func (m message) payload() Payload {
	return Payload{
		Type: m.Kind, Timestamp: m.At.UTC(), Version: payloadVersion,
		Data: PayloadData{
			ID: m.ID, Number: m.Number, Title: m.title(), Text: m.text(), Key: m.KeyID, Organization: m.OrganizationID, Wallet: m.WalletID,
			Payment: m.PaymentID, Approval: m.ApprovalID, Host: m.Host, Payee: m.Payee, Figures: m.Figures, Page: m.page, Approve: m.approve,
		},
	}
}

// body writes the message in a format.
func (m message) body(f Format) ([]byte, error) {
	switch f {
	case FormatSlack:
		return json.Marshal(m.slack())
	case FormatDiscord:
		return json.Marshal(m.discord())
	case FormatTeams:
		return json.Marshal(m.teams())
	case FormatJSON, FormatMail:
	}
	return json.Marshal(m.payload())
}
