package proxy

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"
)

const (
	// maxLine bounds what is kept of a line of a stream. Of a longer one the beginning decides.
	maxLine = 256 << 10
	// maxOpenLine bounds a line that is looked at before its end has come.
	maxOpenLine = 1 << 10
)

// lastEvent follows a stream of events, and tells whether the last one says that no more come. Clients leave there,
// whatever the connection does. An event that comes later shows that it was not the last one.
type lastEvent struct {
	lines    bool   // a JSON value a line, instead of server-sent events
	boundary []byte // the last delimiter of a multipart body; nil: it is none

	line []byte // that has not ended yet, or its first maxLine bytes
	name string // of the event
	next bool   // the event has a name, and nothing that was heard yet
	data []byte // of the event, at most maxLine bytes
	ends bool
	over bool // nothing can come behind it
}

// lastEventOf returns what follows an answer; nil: the answer is no stream with an end of its own, or it cannot be read.
func lastEventOf(resp *http.Response) *lastEvent {
	kind, parameters, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if coding := resp.Header.Get("Content-Encoding"); err != nil || coding != "" && !strings.EqualFold(coding, "identity") {
		return nil
	}
	switch _, name, _ := strings.Cut(kind, "/"); {
	case kind == "text/event-stream":
		return new(lastEvent)
	case resp.ContentLength >= 0: // doors keep pieces of such an answer back
		return nil
	case slices.Contains(lineFormats, strings.TrimPrefix(name, "x-")):
		return &lastEvent{lines: true}
	case strings.HasPrefix(kind, "multipart/") && parameters["boundary"] != "":
		return &lastEvent{boundary: []byte("--" + parameters["boundary"] + "--")}
	}
	return nil
}

// lineFormats lists the subtypes of streams with a JSON value a line, without x-.
var lineFormats = []string{"ndjson", "jsonl", "jsonlines", "json-lines", "json-seq", "stream+json", "ld+ndjson"}

// sees takes the next piece of the stream. It reports whether the last event so far is the stream's own end.
func (e *lastEvent) sees(piece []byte) bool {
	if e.boundary != nil {
		return e.seesPart(piece)
	}
	for len(piece) > 0 && !e.over {
		end := bytes.IndexByte(piece, '\n')
		whole := end >= 0
		if !whole {
			end = len(piece)
		}
		e.line = append(e.line, piece[:min(end, maxLine-len(e.line))]...)
		if !whole {
			break
		}
		e.take(bytes.TrimSuffix(e.line, []byte("\r")))
		e.line, piece = e.line[:0], piece[end+1:]
	}
	return e.over || e.open() || e.ends && !e.begun()
}

// begun reports whether a further event has begun behind the stream's own end, and may be one that takes that back.
func (e *lastEvent) begun() bool {
	line := bytes.Trim(e.line, " \t\x1e\r")
	return e.next || len(line) > 0 && (e.lines || line[0] != ':')
}

// open reports whether a line whose end has not come yet is the stream's own end.
func (e *lastEvent) open() bool {
	if n := len(e.line); n == 0 || n > maxOpenLine || e.line[n-1] != '}' && e.line[n-1] != ']' {
		return false
	}
	data := e.line
	if !e.lines {
		field, value := cutField(e.line)
		if field != "data" || len(e.data) > 0 {
			return false
		}
		data = value
	}
	word := wordOf(e.name, data)
	return word == wordLast || word == wordOver
}

// seesPart looks for the delimiter behind the last part of a multipart body.
func (e *lastEvent) seesPart(piece []byte) bool {
	e.line = append(e.line, piece...)
	e.over = e.over || bytes.Contains(e.line, e.boundary)
	e.line = append(e.line[:0], e.line[max(0, len(e.line)-len(e.boundary)):]...)
	return e.over
}

// take takes a line.
func (e *lastEvent) take(line []byte) {
	if e.lines {
		if line = bytes.Trim(line, " \t\x1e"); len(line) > 0 {
			e.hear(wordOf("", line))
		}
		return
	}
	switch field, value := cutField(line); field {
	case "":
		if len(line) > 0 { // a comment
			return
		}
		if bytes.IndexByte(e.data, '\n') >= 0 || len(e.data) == 0 && e.name != "" {
			e.hear(wordOf(e.name, e.data))
		}
		e.name, e.data, e.next = "", e.data[:0], false
	case "event":
		e.name = string(value[:min(len(value), maxOpenLine)])
		e.next = !slices.Contains(asideNames, e.name)
	case "data":
		first := len(e.data) == 0
		if !first {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value[:min(len(value), max(0, maxLine-len(e.data)))]...)
		if first {
			e.next = false
			e.hear(wordOf(e.name, e.data))
		}
	}
}

// cutField parts a line of server-sent events.
func cutField(line []byte) (name string, value []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	if len(field) > len("event") {
		return "another", nil
	}
	return string(field), bytes.TrimPrefix(value, []byte(" "))
}

func (e *lastEvent) hear(w eventWord) {
	switch w {
	case wordNothing:
	case wordMore:
		e.ends = false
	case wordLast:
		e.ends = true
	case wordOver:
		e.over = true
	}
}

// eventWord holds the meaning of an event for its stream.
type eventWord int

const (
	wordMore    eventWord = iota
	wordNothing           // such as a ping
	wordLast              // it is the last event of one answer
	wordOver              // nothing comes behind it
)

// Names and types of events.
var (
	// lastNames names events that are the last ones, whatever their data.
	lastNames = []string{"done", "end", "complete"}
	// lastTypes lists the types of last events: Anthropic's, those of OpenAI's Responses, images, speech and
	// transcripts, Cohere's, Gemini's interactions, those of AI SDK's and AG-UI's streams, and Dify's.
	lastTypes = []string{
		"message_stop",
		"response.completed", "response.failed", "response.incomplete", "response.cancelled",
		"image_generation.completed", "image_edit.completed", "speech.audio.done", "transcript.text.done",
		"message-end", "stream-end", "interaction.complete", "interaction.completed",
		"finish", "RUN_FINISHED", "message_end", "workflow_finished", "done",
	}
	// asideNames name events that say nothing of the stream.
	asideNames = []string{"ping", "heartbeat", "keepalive", "keep-alive"}
)

// lastWords holds what events say of their stream.
type lastWords struct {
	Type      string `json:"type"`
	Event     string `json:"event"`
	EventType string `json:"event_type"`

	Done       bool    `json:"done"`           // Ollama
	IsFinished bool    `json:"is_finished"`    // Cohere, version 1
	Stop       bool    `json:"stop"`           // llama.cpp
	Generated  *string `json:"generated_text"` // Text Generation Inference
	Result     struct {
		Final bool `json:"final"`
	} `json:"result"` // A2A, in JSON-RPC
	HasNext    *bool `json:"hasNext"` // GraphQL
	Candidates []struct {
		FinishReason string `json:"finishReason"`
	} `json:"candidates"` // Gemini
	Usage json.RawMessage `json:"usageMetadata"`
}

// wordOf reads an event by its name, which may be empty, and its data.
func wordOf(name string, data []byte) eventWord {
	data = bytes.TrimSpace(data)
	switch {
	case string(data) == "[DONE]":
		return wordOver
	case slices.Contains(lastNames, name) || slices.Contains(lastTypes, name):
		return wordLast
	case slices.Contains(asideNames, name) || len(data) == 0:
		return wordNothing
	case data[0] != '{':
		return wordMore
	}
	var says lastWords
	if _, broken := json.Unmarshal(data, &says).(*json.SyntaxError); broken { //nolint:errorlint // Unmarshal returns it bare; members of other types leave the rest
		says = lastWords{Type: typeOf(data)}
	}
	switch {
	case slices.Contains(lastTypes, says.Type), slices.Contains(lastTypes, says.Event), slices.Contains(lastTypes, says.EventType),
		says.Done, says.IsFinished, says.Stop, says.Result.Final, says.Generated != nil,
		says.HasNext != nil && !*says.HasNext, len(says.Candidates) > 0 && says.finished():
		return wordLast
	case slices.Contains(asideNames, says.Type), says.Usage != nil && len(says.Candidates) == 0:
		return wordNothing
	}
	return wordMore
}

func (w lastWords) finished() bool {
	for _, c := range w.Candidates {
		if c.FinishReason == "" {
			return false
		}
	}
	return true
}

// typeOf returns the type that an object begins with, whose end was cut off; "": it begins with another member.
func typeOf(data []byte) string {
	d := json.NewDecoder(bytes.NewReader(data[:min(len(data), maxOpenLine)]))
	for _, want := range []json.Token{json.Delim('{'), "type"} {
		if got, err := d.Token(); err != nil || got != want {
			return ""
		}
	}
	got, _ := d.Token()
	text, _ := got.(string)
	return text
}
