package notices

import "strings"

type object = map[string]any

// slackText escapes the characters that begin mentions and links in the text that Slack shows in its
// notifications.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack is a message of blocks. All text in them is plain_text, in which Slack reads no mentions, links
// or emoji.
func (m message) slack() object {
	plain := func(text string) object { return object{"type": "plain_text", "text": text, "emoji": false} }
	blocks := []object{{"type": "header", "text": plain(m.title())}, {"type": "section", "text": plain(m.text())}}
	var fields []object
	for _, f := range m.facts() {
		if fields = append(fields, plain(f.name+": "+f.value)); len(fields) == 10 {
			break
		}
	}
	if len(fields) > 0 {
		blocks = append(blocks, object{"type": "section", "fields": fields})
	}
	var buttons []object
	for _, l := range m.links() {
		buttons = append(buttons, object{"type": "button", "text": plain(l.name), "url": l.value})
	}
	if len(buttons) > 0 {
		blocks = append(blocks, object{"type": "actions", "elements": buttons})
	}
	return object{"text": slackText.Replace(m.title() + ". " + m.text()), "blocks": blocks}
}

// discordText puts a backslash before every character that Discord's Markdown could read. It cuts the text
// off before it is longer than Discord takes.
func discordText(text string, most int) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		marked := strings.ContainsRune("\\`*_{}[]()<>#+-!|~@:/=&", r)
		if n++; marked {
			n++
		}
		if n >= most {
			b.WriteRune('…')
			break
		}
		if marked {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Discord takes so much of an embed, in characters: a title, a field's name and value, and all
// together, which leaves room for links.
const (
	discordTitle = 256
	discordName  = 256
	discordValue = 400
	discordBody  = 2600
	discordRows  = 6
)

// discordColor is the colour of the edge of a message.
const discordColor = 0x2d6a4f

// discord is a message with one embed, which may mention no person and no group.
func (m message) discord() object {
	var fields []object
	for _, f := range m.facts() {
		if len(fields) < discordRows && f.value != "" {
			fields = append(fields, object{"name": discordText(f.name, discordName), "value": discordText(f.value, discordValue), "inline": true})
		}
	}
	text := discordText(m.text(), discordBody)
	for _, l := range m.links() {
		text += "\n[" + l.name + "](<" + l.value + ">)"
	}
	return object{
		"allowed_mentions": object{"parse": []string{}},
		"embeds": []object{{
			"title": discordText(m.title(), discordTitle), "description": text, "color": discordColor, "timestamp": m.At.UTC().Format("2006-01-02T15:04:05Z"), "fields": fields,
		}},
	}
}

// teams is an adaptive card as a workflow of Teams takes it. A TextRun has no Markdown, unlike a
// TextBlock and a FactSet.
func (m message) teams() object {
	run := func(text string, more object) object {
		o := object{"type": "TextRun", "text": text}
		for k, v := range more {
			o[k] = v
		}
		return object{"type": "RichTextBlock", "inlines": []object{o}}
	}
	body := []object{run(m.title(), object{"weight": "Bolder", "size": "Medium"}), run(m.text(), nil)}
	for _, f := range m.facts() {
		body = append(body, run(f.name+": "+f.value, object{"isSubtle": true}))
	}
	var actions []object
	for _, l := range m.links() {
		actions = append(actions, object{"type": "Action.OpenUrl", "title": l.name, "url": l.value})
	}
	card := object{"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4", "body": body}
	if len(actions) > 0 {
		card["actions"] = actions
	}
	return object{
		"type":        "message",
		"attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": nil, "content": card}},
	}
}
