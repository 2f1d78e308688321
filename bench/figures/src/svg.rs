//! A drawing and its SVG text.

use std::fmt::{Display, Write};

/// A drawing of a fixed width that grows downwards.
#[derive(Debug)]
pub struct Sheet {
    width: f64,
    body: String,
}

/// The alignment of a text with its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text's middle is there.
    Middle,
    /// The text ends there.
    End,
}

impl Sheet {
    /// An empty drawing.
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    fn add(&mut self, element: impl Display) {
        // Writing to a string can't fail.
        let _ = writeln!(self.body, "  {element}");
    }

    /// A filled rectangle. `tip` is shown where the mouse rests on it.
    pub fn rectangle(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, tip: &str) {
        let tip = if tip.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(tip)) };
        self.add(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="1.5" fill="{fill}">{tip}</rect>"#
        ));
    }

    /// A line. `style` holds further attributes.
    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), stroke: &str, style: &str) {
        self.add(format_args!(
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{stroke}" {style}/>"#
        ));
    }

    /// A line with an arrow head at its end, of one of the colours of [`finish`](Self::finish).
    pub fn arrow(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, style: &str) {
        let head = format!(r#"marker-end="url(#head-{})" {style}"#, stroke.trim_start_matches('#'));
        self.line(from, to, stroke, &head);
    }

    /// A line of text. `style` holds further attributes.
    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, style: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.add(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" {style}>{text}</text>"#));
    }

    /// The whole drawing. Arrows may have the colours `heads`.
    pub fn finish(self, height: f64, heads: &[&str]) -> String {
        let Self { width, body } = self;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n  <defs>\n"
        );
        for head in heads {
            let id = head.trim_start_matches('#');
            let _ = writeln!(
                out,
                "    <marker id=\"head-{id}\" viewBox=\"0 0 8 8\" refX=\"7.5\" refY=\"4\" markerWidth=\"6\" \
                 markerHeight=\"6\" orient=\"auto\"><path d=\"M0,0.8 L8,4 L0,7.2 z\" fill=\"{head}\"/></marker>"
            );
        }
        out.push_str("  </defs>\n  <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n");
        out.push_str(&body);
        out.push_str("</svg>\n");
        out
    }
}

/// Escapes a text for SVG, and for HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A round step (1, 2 or 5 of a power of ten) that divides `span` into at most `parts` parts.
pub fn tick(span: f64, parts: f64) -> f64 {
    let rough = (span / parts).max(1e-9);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * power >= rough * 0.999_999);
    step.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_the_texts_are_the_drawing_is_well_formed() {
        let mut sheet = Sheet::new(100.0);
        sheet.text((1.0, 2.0), Anchor::Middle, r#"font-size="9""#, "a<b & \"c\" > \u{7} \u{ffff} µ");
        sheet.rectangle((0.0, 0.0), (1.0, 1.0), "#123456", "tip & <tip>");
        sheet.arrow((0.0, 0.0), (5.0, 5.0), "#123456", "");
        let drawn = sheet.finish(50.0, &["#123456"]);
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let texts: Vec<_> = document.descendants().filter(|node| node.has_tag_name("text")).collect();
        assert_eq!(texts[0].text(), Some("a<b & \"c\" > \u{fffd} \u{fffd} µ"));
        assert_eq!(document.root_element().attribute("height"), Some("50"));
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(tick(100.0, 10.0), 10.0);
        assert_eq!(tick(101.0, 10.0), 20.0);
        assert!((tick(0.7, 10.0) - 0.1).abs() < 1e-9);
        assert_eq!(tick(33_000.0, 8.0), 5_000.0);
    }
}
