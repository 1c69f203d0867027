package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
)

//go:embed page.html
var pageTemplate string

//go:embed page.css
var pageStyle string

// page holds the data of the template.
type page struct {
	Title, Summary, Version string
	Style                   template.CSS
	About                   template.HTML
	Security                []described
	Groups                  []group
	Schemas                 []described
}

type group struct {
	Name       string
	About      template.HTML
	Operations []shownOperation
}

type shownOperation struct {
	ID, Method, Path, Summary string
	About                     template.HTML
	Auth                      string
	Parameters                []field
	Body                      *shownBody
	Responses                 []shownResponse
}

type shownBody struct {
	Required bool
	Type     template.HTML
	Examples []shownExample
}

type shownResponse struct {
	Status, Reason string
	About          template.HTML
	Type           template.HTML
	Headers        []string
	Texts          []shownExample // of errors
	Examples       []shownExample
}

type shownExample struct{ Text, Summary string }

// described holds a schema, or a security scheme.
type described struct {
	Name, Kind string
	About      template.HTML
	Fields     []field
}

type field struct {
	Name, In string
	Type     template.HTML
	Required bool
	About    template.HTML
}

// renderer makes the page of one document. It keeps the first error, so that the steps need not
// return theirs.
type renderer struct {
	api       api
	markdown  goldmark.Markdown
	endpoints map[string]string // "GET /" to the operation's id
	err       error
}

// render makes the page of a document.
func render(document []byte) ([]byte, error) {
	r := &renderer{markdown: goldmark.New(goldmark.WithExtensions(extension.Table)), endpoints: map[string]string{}}
	if err := json.Unmarshal(document, &r.api); err != nil {
		return nil, err
	}
	for _, p := range r.api.Paths {
		for _, m := range p.Value.methods() {
			r.endpoints[m.Name+" "+p.Name] = m.Value.OperationID
		}
	}
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	shown := r.page()
	if r.err != nil {
		return nil, r.err
	}
	var out bytes.Buffer
	err = t.Execute(&out, shown)
	return out.Bytes(), err
}

func (r *renderer) page() page {
	p := page{
		Title: r.api.Info.Title, Summary: r.api.Info.Summary, Version: r.api.Info.Version,
		Style: template.CSS(pageStyle), //nolint:gosec // our own file
		About: r.text(r.api.Info.Description),
	}
	for _, s := range r.api.Components.SecuritySchemes {
		p.Security = append(p.Security, described{Name: s.Value.Name, About: r.text(s.Value.Description)})
	}
	for _, tag := range r.api.Tags {
		g := group{Name: tag.Name, About: r.text(tag.Description)}
		for _, path := range r.api.Paths {
			for _, m := range path.Value.methods() {
				if slices.Contains(m.Value.Tags, tag.Name) {
					g.Operations = append(g.Operations, r.operation(m.Name, path.Name, path.Value.Parameters, *m.Value))
				}
			}
		}
		p.Groups = append(p.Groups, g)
	}
	for _, s := range r.api.Components.Schemas {
		p.Schemas = append(p.Schemas, described{
			Name: s.Name, Kind: r.plainKind(s.Value), About: r.text(s.Value.Description + limits(s.Value)), Fields: r.fields("", s.Value),
		})
	}
	return p
}

func (r *renderer) operation(method, path string, shared []parameter, o operation) shownOperation {
	s := shownOperation{
		ID: o.OperationID, Method: method, Path: path, Summary: o.Summary, About: r.text(o.Description), Auth: r.auth(o),
	}
	for _, p := range slices.Concat(shared, o.Parameters) {
		p = resolve(r, p.Ref, r.api.Components.Parameters, p)
		s.Parameters = append(s.Parameters, field{
			Name: p.Name, In: p.In, Type: r.kind(p.Schema), Required: p.Required, About: r.text(p.Description + limits(p.Schema)),
		})
	}
	if o.RequestBody != nil {
		s.Body = &shownBody{Required: o.RequestBody.Required}
		for _, m := range o.RequestBody.Content {
			s.Body.Type = r.kind(m.Value.Schema)
			s.Body.Examples = r.examples(m.Value.Examples)
		}
	}
	for _, resp := range o.Responses {
		s.Responses = append(s.Responses, r.response(resp.Name, resolve(r, resp.Value.Ref, r.api.Components.Responses, resp.Value)))
	}
	return s
}

func (r *renderer) auth(o operation) string {
	if o.Security == nil {
		return "needs a key"
	}
	for _, one := range *o.Security {
		if len(one) > 0 {
			return "needs no key; privileged with X-Internal-Secret"
		}
	}
	return "needs no key"
}

func (r *renderer) response(status string, v response) shownResponse {
	s := shownResponse{Status: status, About: r.text(v.Description)}
	for _, h := range v.Headers {
		s.Headers = append(s.Headers, h.Name)
	}
	for _, m := range v.Content {
		s.Type = r.kind(m.Value.Schema)
		for _, e := range m.Value.Examples {
			e.Value = resolve(r, e.Value.Ref, r.api.Components.Examples, e.Value)
			var problem struct{ Error string }
			_ = json.Unmarshal(e.Value.Value, &problem) // not every example is one of an error
			if problem.Error != "" {
				s.Texts = append(s.Texts, shownExample{problem.Error, e.Value.Summary})
			}
			if problem.Error == "" || strings.Contains(string(e.Value.Value), `"payment"`) {
				s.Examples = append(s.Examples, r.example(e.Value))
			}
		}
	}
	return s
}

func (r *renderer) examples(list ordered[example]) (shown []shownExample) {
	for _, e := range list {
		shown = append(shown, r.example(resolve(r, e.Value.Ref, r.api.Components.Examples, e.Value)))
	}
	return shown
}

func (r *renderer) example(e example) shownExample {
	var text bytes.Buffer
	r.note(json.Indent(&text, e.Value, "", "  "))
	return shownExample{text.String(), e.Summary}
}

// fields lists the members of a schema, those of inner objects by their path.
func (r *renderer) fields(prefix string, s schema) (list []field) {
	for _, p := range s.Properties {
		list = append(list, field{
			Name: prefix + p.Name, Type: r.kind(p.Value), Required: slices.Contains(s.Required, p.Name),
			About: r.text(p.Value.Description + limits(p.Value)),
		})
		list = append(list, r.fields(prefix+p.Name+".", p.Value)...)
		if p.Value.Items != nil {
			list = append(list, r.fields(prefix+p.Name+"[].", *p.Value.Items)...)
		}
	}
	return list
}

// kind names the values that a schema takes, with links to schemas of their own.
func (r *renderer) kind(s schema) template.HTML {
	switch {
	case s.Ref != "":
		resolve(r, s.Ref, r.api.Components.Schemas, s)
		name := html.EscapeString(refName(s.Ref))
		return template.HTML(`<a href="#schema-` + name + `">` + name + `</a>`) //nolint:gosec // escaped
	case s.Items != nil:
		return "array of " + r.kind(*s.Items)
	case len(s.AnyOf) > 0:
		var names []string
		for _, one := range s.AnyOf {
			names = append(names, string(r.kind(one)))
		}
		return template.HTML(strings.Join(names, " or ")) //nolint:gosec // escaped above
	}
	return template.HTML(html.EscapeString(r.plainKind(s))) //nolint:gosec // escaped
}

func (r *renderer) plainKind(s schema) string {
	kind := strings.Join(s.Type, " or ")
	if s.Format != "" {
		kind += " (" + s.Format + ")"
	}
	if s.ContentEncoding != "" {
		kind += " (" + s.ContentEncoding + ")"
	}
	return kind
}

// limits lists the further demands of a schema, in Markdown.
func limits(s schema) string {
	var parts []string
	add := func(format string, values ...any) { parts = append(parts, fmt.Sprintf(format, values...)) }
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			if v != nil && v != "" {
				values = append(values, fmt.Sprintf("`%v`", v))
			}
		}
		add("One of %s.", strings.Join(values, ", "))
	}
	if s.Default != nil {
		add("Default: `%v`.", s.Default)
	}
	if s.Minimum != nil {
		add("At least %d.", *s.Minimum)
	}
	switch {
	case s.MinLength != nil && s.MaxLength != nil:
		add("%d to %d characters.", *s.MinLength, *s.MaxLength)
	case s.MaxLength != nil:
		add("At most %d characters.", *s.MaxLength)
	}
	if s.Pattern != "" {
		add("Pattern: `%s`", s.Pattern)
	}
	if len(parts) == 0 {
		return ""
	}
	return "\n\n" + strings.Join(parts, " ")
}

var inlineCode = regexp.MustCompile(`<code>([A-Z]+ /[^<]*)</code>`)

// text renders Markdown. Endpoints that it names become links.
func (r *renderer) text(markdown string) template.HTML {
	var out bytes.Buffer
	r.note(r.markdown.Convert([]byte(markdown), &out))
	linked := inlineCode.ReplaceAllFunc(out.Bytes(), func(code []byte) []byte {
		id, known := r.endpoints[string(code[len("<code>"):len(code)-len("</code>")])]
		if !known {
			return code
		}
		return slices.Concat([]byte(`<a href="#op-`+id+`">`), code, []byte("</a>"))
	})
	return template.HTML(linked) //nolint:gosec // goldmark lets no HTML of the text through
}

func (r *renderer) note(err error) {
	if r.err == nil {
		r.err = err
	}
}

// resolve returns the component that a $ref names, and there if ref is empty. It keeps the error.
func resolve[T any](r *renderer, ref string, components ordered[T], there T) T {
	if ref == "" {
		return there
	}
	found, ok := components.get(refName(ref))
	if !ok {
		r.note(fmt.Errorf("%s leads nowhere", ref))
	}
	return found
}
