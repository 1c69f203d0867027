package notices

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// secret signs what purser posts.
const secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

// chat is a server with the webhooks of Slack, Discord and Teams, and one of an operator's own. Each takes what the
// real one takes, and answers as that does.
type chat struct {
	*httptest.Server
	mu       sync.Mutex
	taken    map[string][]message // by webhook
	refused  []string             // what a webhook did not understand
	statuses map[string][]int     // answers to come, by webhook
}

// message is a message as people see it.
type message struct {
	id   string // of the notice, as its signature has it
	text string // all words
	link []string
}

// The webhooks of the chat.
const (
	slackPath   = "/services/T0/B0/slack"
	discordPath = "/api/webhooks/1/discord"
	teamsPath   = "/workflows/teams"
	ownPath     = "/own"
)

func chatPaths() []string { return []string{slackPath, discordPath, teamsPath, ownPath} }

func startChat(t *testing.T) *chat {
	t.Helper()
	c := &chat{taken: map[string][]message{}, statuses: map[string][]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

// webhooks is the setting with all of them.
func (c *chat) webhooks() string {
	return "PURSER_WEBHOOKS=" + strings.Join([]string{
		"slack+" + c.URL + slackPath, "discord+" + c.URL + discordPath, "teams+" + c.URL + teamsPath + "?sig=secret", c.URL + ownPath,
	}, ",")
}

// fail has a webhook give these answers before it takes messages again.
func (c *chat) fail(path string, statuses ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[path] = statuses
}

// got lists what a webhook has taken.
func (c *chat) got(path string) []message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]message(nil), c.taken[path]...)
}

// faults lists what was not understood.
func (c *chat) faults() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.refused...)
}

func (c *chat) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 28<<10)) // Teams takes no more
	c.mu.Lock()
	defer c.mu.Unlock()
	if list := c.statuses[r.URL.Path]; len(list) > 0 {
		c.statuses[r.URL.Path] = list[1:]
		w.WriteHeader(list[0])
		return
	}
	m := message{id: r.Header.Get("webhook-id")}
	reads := map[string]func([]byte, *message) error{slackPath: readSlack, discordPath: readDiscord, teamsPath: readTeams, ownPath: readOwn}
	read, known := reads[r.URL.Path]
	verifier, verr := standardwebhooks.NewWebhook(secret)
	err = errors.Join(err, verr)
	switch {
	case err != nil:
	case !known || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		err = fmt.Errorf("%s %s of %s", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	case r.URL.Path == teamsPath && r.URL.Query().Get("sig") != "secret":
		err = errors.New("the query was lost")
	default:
		err = errors.Join(read(body, &m), verifier.VerifyIgnoringTimestamp(body, r.Header))
	}
	if err != nil {
		c.refused = append(c.refused, fmt.Sprintf("%s: %v in %s", r.URL.Path, err, body))
		http.Error(w, "invalid_payload", http.StatusBadRequest)
		return
	}
	c.taken[r.URL.Path] = append(c.taken[r.URL.Path], m)
	switch r.URL.Path {
	case slackPath:
		_, _ = io.WriteString(w, "ok")
	case discordPath:
		w.WriteHeader(http.StatusNoContent)
	case teamsPath:
		w.WriteHeader(http.StatusAccepted)
	}
}

// strict reads JSON without members that the type does not have.
func strict(body []byte, into any) error {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// say adds words of 1 to so many characters.
func (m *message) say(what, text string, most int) error {
	m.text += text + "\n"
	if n := utf8.RuneCountInString(text); n == 0 || n > most {
		return fmt.Errorf("%s has %d characters, and may have %d", what, n, most)
	}
	return nil
}

// link adds an address.
func (m *message) open(text, address string) error {
	m.link = append(m.link, address)
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || text == "" {
		return fmt.Errorf("button %q opens %q", text, address)
	}
	return nil
}

// readSlack reads a message of blocks: https://docs.slack.dev/reference/block-kit/blocks.
func readSlack(body []byte, m *message) error {
	type plain struct {
		Type, Text string
		Emoji      *bool
	}
	var in struct {
		Text   string
		Blocks []struct {
			Type     string
			Text     *plain
			Fields   []plain
			Elements []struct {
				Type, URL string
				Text      plain
			}
		}
	}
	if err := strict(body, &in); err != nil {
		return err
	}
	if in.Text == "" || strings.ContainsAny(in.Text, "<>") || len(in.Blocks) == 0 || len(in.Blocks) > 50 {
		return errors.New("no_text")
	}
	var errs []error
	for _, b := range in.Blocks {
		limits := map[string]int{"header": 150, "section": 3000}
		if b.Text != nil {
			errs = append(errs, m.say(b.Type, b.Text.Text, limits[b.Type]))
		}
		if len(b.Fields) > 10 || b.Type == "section" && b.Text == nil && len(b.Fields) == 0 || b.Type == "actions" && len(b.Elements) == 0 {
			errs = append(errs, errors.New("invalid_blocks"))
		}
		for _, f := range b.Fields {
			errs = append(errs, m.say("a field", f.Text, 2000))
			if f.Type != "plain_text" {
				errs = append(errs, errors.New("a field can be read as Markdown"))
			}
		}
		for _, e := range b.Elements {
			if errs = append(errs, m.open(e.Text.Text, e.URL)); e.Type != "button" || len(e.Text.Text) > 75 {
				errs = append(errs, errors.New("invalid_blocks"))
			}
		}
	}
	return errors.Join(errs...)
}

// readDiscord reads a message of embeds: https://discord.com/developers/docs/resources/message#embed-object.
func readDiscord(body []byte, m *message) error {
	var in struct {
		Mentions *struct{ Parse []string } `json:"allowed_mentions"`
		Embeds   []struct {
			Title, Description string
			Color              int
			Timestamp          time.Time
			Fields             []struct {
				Name, Value string
				Inline      bool
			}
		}
	}
	if err := strict(body, &in); err != nil {
		return err
	}
	if in.Mentions == nil || in.Mentions.Parse == nil || len(in.Mentions.Parse) != 0 || len(in.Embeds) != 1 {
		return errors.New("it may mention people, or has no embed")
	}
	e, seen := in.Embeds[0], message{}
	errs := []error{seen.say("title", e.Title, 256), seen.say("description", e.Description, 4096)}
	for _, f := range e.Fields {
		errs = append(errs, seen.say("name", f.Name, 256), seen.say("value", f.Value, 1024))
	}
	if e.Timestamp.IsZero() || len(e.Fields) > 25 || utf8.RuneCountInString(seen.text) > 6000 {
		errs = append(errs, errors.New("BASE_TYPE_MAX_LENGTH"))
	}
	for line := range strings.Lines(e.Description) {
		if _, rest, found := strings.Cut(line, "](<"); found {
			errs = append(errs, seen.open(line, strings.TrimSuffix(strings.TrimSpace(rest), ">)")))
		}
	}
	m.text, m.link = strings.ReplaceAll(seen.text, `\`, ""), seen.link // as people see it
	return errors.Join(errs...)
}

// readTeams reads an adaptive card as a workflow of Teams takes it: https://adaptivecards.io/explorer.
func readTeams(body []byte, m *message) error {
	var in struct {
		Type        string
		Attachments []struct {
			ContentType string
			ContentURL  *string
			Content     struct {
				Schema        string `json:"$schema"`
				Type, Version string
				Body          []struct {
					Type    string
					Inlines []struct {
						Type, Text, Weight, Size string
						IsSubtle                 bool
					}
				}
				Actions []struct{ Type, Title, URL string }
			}
		}
	}
	if err := strict(body, &in); err != nil {
		return err
	}
	if in.Type != "message" || len(in.Attachments) != 1 || in.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
		return errors.New("no card")
	}
	card := in.Attachments[0].Content
	if card.Type != "AdaptiveCard" || card.Version != "1.4" || len(card.Body) == 0 {
		return fmt.Errorf("card of type %s %s", card.Type, card.Version)
	}
	var errs []error
	for _, b := range card.Body {
		if b.Type != "RichTextBlock" || len(b.Inlines) == 0 {
			return fmt.Errorf("block of type %s", b.Type)
		}
		for _, i := range b.Inlines {
			errs = append(errs, m.say(i.Type, i.Text, 5000))
		}
	}
	for _, a := range card.Actions {
		if errs = append(errs, m.open(a.Title, a.URL)); a.Type != "Action.OpenUrl" {
			return fmt.Errorf("action of type %s", a.Type)
		}
	}
	return errors.Join(errs...)
}

// readOwn reads purser's own form: see docs/notices.md.
func readOwn(body []byte, m *message) error {
	var in struct {
		Type      string
		Timestamp time.Time
		Version   int
		Data      struct {
			ID, Title, Text, Key, Organization, Wallet, Payment, Approval, Host, Payee, Page, Approve string
			Number                                                                                    uint64
			Figures                                                                                   map[string]string
		}
	}
	if err := strict(body, &in); err != nil {
		return err
	}
	if in.Type == "" || in.Timestamp.IsZero() || in.Version != 1 || in.Data.ID != m.id {
		return errors.New("a member is missing")
	}
	err := errors.Join(m.say("title", in.Data.Title, 150), m.say("text", in.Data.Text, 2800))
	m.text = in.Type + "\n" + m.text
	for name, address := range map[string]string{"page": in.Data.Page, "approve": in.Data.Approve} {
		if address != "" {
			err = errors.Join(err, m.open(name, address))
		}
	}
	return err
}
