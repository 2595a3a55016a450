"""Figures as people read them: pictures, pages and what a notebook shows. Pure: plain data in, text out."""
